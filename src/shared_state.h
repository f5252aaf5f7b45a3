// SPDX-License-Identifier: PostgreSQL
// shared_state.h: what all backends of the server share, where there is shared memory. Nothing here decides anything:
// without it every promise holds, only nobody is told of refusals, and waiters look every few milliseconds.
#pragma once

#include "pg/prelude.h"

namespace fencing {

struct Bindings;
struct RefusalLog;
struct Statistics;
struct Wakeups;

// Called once, when the library loads.
void register_shared_state();

// Each null where the server has no shared memory for us.
Bindings *shared_bindings();
RefusalLog *shared_refusals();
Statistics *shared_statistics();
Wakeups *shared_wakeups();

// 55000 where there is none; `what` asks for it.
void require_shared_state(const char *what);

} // namespace fencing
