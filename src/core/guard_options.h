// SPDX-License-Identifier: PostgreSQL
// guard_options.h: the arguments of a guard trigger, 'key=value', read and checked.
#pragma once

#include <cstddef>
#include <string_view>

namespace fencing::core {

enum class Source { any, transaction };
enum class Missing { reject, allow };
enum class Mode { enforce, observe };
enum class Issuer { fencing, external };

struct GuardOptions {
	std::string_view token_column; // empty: none
	std::string_view resource;     // empty: none
	Issuer issuer = Issuer::fencing;
	Source source = Source::any;
	Missing missing = Missing::reject;
	Mode mode = Mode::enforce;
	unsigned seen = 0; // which keys were given, by their position in guard_keys
};

constexpr std::string_view guard_keys[] = {
	"token_column", "resource", "issuer", "source", "missing", "mode"};
// The two words that an option chooses between; none where it takes any name.
constexpr std::string_view guard_words[][2] = {{}, {}, {"fencing", "external"},
	{"any", "transaction"}, {"reject", "allow"}, {"enforce", "observe"}};
constexpr unsigned issuer_key = 2;

enum class OptionProblem { none, unknown_key, repeated_key, bad_value };

struct OptionResult {
	OptionProblem problem;
	std::string_view key;
	std::string_view value;
	const std::string_view *words; // of guard_words
};

namespace detail {

template <typename Word>
constexpr bool
choose(std::string_view value, const std::string_view *words, Word *word) noexcept
{
	if (value != words[0] && value != words[1])
		return false;
	*word = static_cast<Word>(value == words[1]);
	return true;
}

constexpr bool
set_option(GuardOptions *options, unsigned key, std::string_view value) noexcept
{
	const std::string_view *words = guard_words[key];

	switch (key) {
	case 0:
		options->token_column = value;
		return !value.empty();
	case 1:
		options->resource = value;
		return !value.empty();
	case issuer_key:
		return choose(value, words, &options->issuer);
	case 3:
		return choose(value, words, &options->source);
	case 4:
		return choose(value, words, &options->missing);
	default:
		return choose(value, words, &options->mode);
	}
}

} // namespace detail

// Reads one argument. The first '=' splits it; a bare word is the token column.
constexpr OptionResult
add_option(GuardOptions *options, std::string_view argument) noexcept
{
	std::size_t split = argument.find('=');
	bool bare = split == std::string_view::npos;
	std::string_view key = bare ? guard_keys[0] : std::string_view{argument.data(), split};
	std::string_view value = bare
		? argument
		: std::string_view{argument.data() + split + 1, argument.size() - split - 1};

	for (unsigned i = 0; i < sizeof(guard_keys) / sizeof(*guard_keys); i++) {
		if (key != guard_keys[i])
			continue;
		if ((options->seen & (1u << i)) != 0)
			return {OptionProblem::repeated_key, key, value, guard_words[i]};
		options->seen |= 1u << i;
		return {
			detail::set_option(options, i, value) ? OptionProblem::none : OptionProblem::bad_value,
			key, value, guard_words[i]};
	}
	return {OptionProblem::unknown_key, key, value, guard_words[0]};
}

} // namespace fencing::core
