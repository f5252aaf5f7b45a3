// SPDX-License-Identifier: PostgreSQL
// stop_point.h: places where a test stops a backend. Absent from the release library.
//
// Built with -DFENCING_STOP_POINTS, a backend that reaches a point named in the setting
// fencing.stop_points sends SIGSTOP to itself: the test decides what happens meanwhile.
#pragma once

#include "pg/prelude.h"

#ifdef FENCING_STOP_POINTS

#define FENCING_STOP_POINT(name) ::fencing::stop_at(name)

namespace fencing {

void define_stop_points();
void stop_at(std::string_view point);

} // namespace fencing

#else
#define FENCING_STOP_POINT(name) static_cast<void>(0)
#endif
