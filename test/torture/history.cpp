// SPDX-License-Identifier: PostgreSQL
// history.cpp: one write() for each line.

#include "history.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

namespace torture {

std::int64_t
now_ns()
{
	timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

History::History(const char *path, std::string process)
	: process_(std::move(process)),
	  file_(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644))
{
	if (file_ < 0) {
		std::perror(path);
		std::exit(2);
	}
}

long
History::invoke(const std::string &what)
{
	append(++requests_, "invoke " + what);
	return requests_;
}

void
History::answer(long request, const std::string &what)
{
	append(request, what);
}

void
History::append(long request, const std::string &what)
{
	std::string line = std::to_string(now_ns()) + ' ' + process_ + ' ' + std::to_string(request) +
		' ' + what + '\n';

	if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
		std::perror("history");
		std::exit(2);
	}
}

} // namespace torture
