// SPDX-License-Identifier: PostgreSQL
// stop_point.cpp: places where a test stops a backend. Absent from the release library.

#include "pg/stop_point.h"

#ifdef FENCING_STOP_POINTS

extern "C" {
#include <signal.h>

#include "utils/guc.h"
}

namespace fencing {

namespace {

char *points = nullptr;

} // namespace

void
define_stop_points()
{
	DefineCustomStringVariable("fencing.stop_points", "Points at which this backend stops itself.",
		nullptr, &points, "", PGC_USERSET, 0, nullptr, nullptr, nullptr);
}

void
stop_at(std::string_view point)
{
	std::string_view wanted = points;

	if (wanted.find(point) != std::string_view::npos)
		raise(SIGSTOP);
}

} // namespace fencing

#endif
