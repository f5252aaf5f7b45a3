// SPDX-License-Identifier: PostgreSQL
// history.h: what a process asked and what it was told, a line for each, appended to a file.
//
// A line is one write(), so that nothing that was noted is lost when the process is killed:
//
//     NANOSECONDS PROCESS REQUEST invoke VERB key=value ...
//     NANOSECONDS PROCESS REQUEST ok|error|unknown key=value ...
//
// The time is CLOCK_MONOTONIC, which all processes of a machine share: an invoke is noted before the
// request is sent, an answer after it has come. No value contains a space.
#pragma once

#include <cstdint>
#include <string>

namespace torture {

std::int64_t now_ns();

class History {
public:
	// Appends to the file; exits when that is not possible.
	History(const char *path, std::string process);

	// Notes a request and returns its number.
	long invoke(const std::string &what);

	// Notes its answer.
	void answer(long request, const std::string &what);

private:
	void append(long request, const std::string &what);

	std::string process_;
	int file_;
	long requests_ = 0;
};

} // namespace torture
