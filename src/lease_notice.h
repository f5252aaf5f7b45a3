// SPDX-License-Identifier: PostgreSQL
// lease_notice.h: who is told of a change of hands: the server's log, and whoever listens.
#pragma once

#include "fence_table.h"

namespace fencing {

// LOG: somebody has taken a lease over that still stood. A ROLLBACK undoes the grant, not the line.
void log_takeover(const FenceRow &taken, const FenceRow &granted);

// NOTIFY at COMMIT, if fencing.notify is on: "event token resource".
void notify_lease(const char *event, std::int64_t token, const text *resource);

} // namespace fencing
