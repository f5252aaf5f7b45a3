// SPDX-License-Identifier: PostgreSQL
// resource_template.h: the resource that a row belongs to, as literal text with {column}.
//
// {{ and }} are literal braces. Reads only; who resolves the columns is not known here.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace fencing::core {

struct TemplatePiece {
	std::string_view text; // literal bytes, or the name of a column
	bool is_column;
};

struct ResourceTemplate {
	static constexpr std::size_t most_pieces = 32;

	std::array<TemplatePiece, most_pieces> pieces;
	std::size_t count;
};

enum class TemplateProblem { none, open_brace, closing_brace, no_column, too_long };

constexpr bool
is_constant(const ResourceTemplate &parsed) noexcept
{
	for (std::size_t i = 0; i < parsed.count; i++) {
		if (parsed.pieces[i].is_column)
			return false;
	}
	return true;
}

namespace detail {

constexpr bool
add_piece(ResourceTemplate *parsed, std::string_view text, bool is_column) noexcept
{
	if (text.empty() && !is_column)
		return true;
	if (parsed->count == ResourceTemplate::most_pieces)
		return false;
	parsed->pieces[parsed->count++] = {text, is_column};
	return true;
}

constexpr std::string_view
between(std::string_view source, std::size_t from, std::size_t to) noexcept
{
	return {source.data() + from, to - from};
}

} // namespace detail

// The pieces point into `source`.
constexpr TemplateProblem
parse_template(std::string_view source, ResourceTemplate *parsed) noexcept
{
	std::size_t literal = 0; // where the literal text that is being read began

	parsed->count = 0;
	for (std::size_t i = 0; i < source.size(); i++) {
		char here = source[i];

		if (here != '{' && here != '}')
			continue;
		if (i + 1 < source.size() && source[i + 1] == here) {
			// One of the two braces ends the literal; the other is skipped.
			if (!detail::add_piece(parsed, detail::between(source, literal, i + 1), false))
				return TemplateProblem::too_long;
			literal = ++i + 1;
			continue;
		}
		if (here == '}')
			return TemplateProblem::closing_brace;

		std::size_t end = i + 1;

		while (end < source.size() && source[end] != '}' && source[end] != '{')
			end++;
		if (end == source.size() || source[end] == '{')
			return TemplateProblem::open_brace;
		if (end == i + 1)
			return TemplateProblem::no_column;
		if (!detail::add_piece(parsed, detail::between(source, literal, i), false) ||
			!detail::add_piece(parsed, detail::between(source, i + 1, end), true))
			return TemplateProblem::too_long;
		i = end;
		literal = end + 1;
	}
	if (!detail::add_piece(parsed, detail::between(source, literal, source.size()), false))
		return TemplateProblem::too_long;
	return TemplateProblem::none;
}

} // namespace fencing::core
