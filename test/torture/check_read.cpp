// SPDX-License-Identifier: PostgreSQL
// check_read.cpp: the files. A history may still be written to: a last line without its end is left out.

#include "check.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace torture {

namespace {

[[noreturn]] void
not_understood(const char *path, const std::string &line)
{
	std::fprintf(stderr, "%s: not understood: %s\n", path, line.c_str());
	std::exit(2);
}

std::int64_t
number(const std::string &text)
{
	return text.empty() || text == "-" ? 0 : std::strtoll(text.c_str(), nullptr, 10);
}

std::string
value_of(const std::map<std::string, std::string> &list, const char *key)
{
	auto found = list.find(key);

	return found == list.end() ? "" : found->second;
}

std::map<std::string, std::string>
pairs_of(std::istringstream &words)
{
	std::map<std::string, std::string> pairs;
	std::string word;

	while (words >> word) {
		std::size_t equals = word.find('=');

		if (equals != std::string::npos)
			pairs[word.substr(0, equals)] = word.substr(equals + 1);
	}
	return pairs;
}

std::ifstream
opened(const char *path)
{
	std::ifstream file(path);

	if (!file) {
		std::perror(path);
		std::exit(2);
	}
	return file;
}

// The lines of a file that are complete and not comments.
bool
next_line(std::ifstream &file, std::string &line)
{
	while (std::getline(file, line)) {
		if (file.eof())
			return false;
		if (!line.empty() && line[0] != '#')
			return true;
	}
	return false;
}

} // namespace

std::string
Request::ask(const char *key) const
{
	return value_of(asked, key);
}

std::string
Request::tell(const char *key) const
{
	return value_of(told, key);
}

std::int64_t
Request::ask_number(const char *key) const
{
	return number(ask(key));
}

std::int64_t
Request::tell_number(const char *key) const
{
	return number(tell(key));
}

void
Checker::read_history(const char *path)
{
	std::ifstream file = opened(path);
	std::string line;

	while (next_line(file, line)) {
		std::istringstream words(line);
		std::string process, request, kind;
		Time time;

		if (!(words >> time >> process >> request >> kind))
			not_understood(path, line);

		std::string key = process + ' ' + request;

		if (kind == "invoke") {
			Request made;

			made.process = process;
			made.invoked = time;
			if (!(words >> made.verb))
				not_understood(path, line);
			made.asked = pairs_of(words);
			made.lines[0] = line;
			open_[key] = requests_.size();
			requests_.push_back(std::move(made));
			continue;
		}

		auto found = open_.find(key);

		if (found == open_.end())
			not_understood(path, line);

		Request &made = requests_[found->second];

		made.answered = time;
		made.fate = kind == "ok" ? Fate::ok : kind == "error" ? Fate::error : Fate::unknown;
		made.told = pairs_of(words);
		made.lines[1] = line;
	}
}

void
Checker::read_dump(const char *path)
{
	std::ifstream file = opened(path);
	std::string line;

	while (next_line(file, line)) {
		std::istringstream words(line);
		std::string kind;
		bool understood = false;

		words >> kind;
		if (kind == "dump") {
			understood = static_cast<bool>(words >> dump_.begun >> dump_.ended >> dump_.life);
			dumped_ = true;
		} else if (kind == "row") {
			Row row;
			std::string token, seq;

			understood = static_cast<bool>(words >> row.table >> row.op >> row.part >>
				row.resource >> token >> seq >> row.worker >> row.xid >> row.life);
			row.token = number(token);
			row.seq = number(seq);
			row.line = line;
			dump_.rows.push_back(std::move(row));
		} else if (kind == "state") {
			State state;
			std::string token;

			understood = static_cast<bool>(
				words >> state.table >> state.resource >> state.seq >> state.op >> token);
			state.token = number(token);
			state.line = line;
			dump_.states.push_back(std::move(state));
		} else if (kind == "change") {
			std::string table, resource, before, after;

			understood = static_cast<bool>(words >> table >> resource >> before >> after);
			dump_.changes.push_back({line, number(before), number(after)});
		} else if (kind == "fence") {
			Fence fence;

			understood = static_cast<bool>(words >> fence.resource >> fence.token);
			fence.line = line;
			dump_.fences.push_back(std::move(fence));
		}
		if (!understood)
			not_understood(path, line);
	}
}

} // namespace torture
