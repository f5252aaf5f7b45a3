// SPDX-License-Identifier: PostgreSQL
// shared_state.h: what all backends of the server share, where there is shared memory. Nothing here decides anything:
// without it every promise holds, only nobody is told of refusals, and waiters look every few milliseconds.
#pragma once

#include "pg/prelude.h"

#include "bindings.h"
#include "refusal_log.h"
#include "statistics.h"
#include "wakeup.h"

namespace fencing {

struct SharedState {
	Wakeups wakeups;
	Statistics statistics;
	RefusalLog refusals;
	Bindings bindings;
};

// Called once, when the library loads.
void register_shared_state();

// Null where the server has no shared memory for us. Asked for as pg/shared_memory.h says.
SharedState *shared_state();

// 55000 where there is none; `what` asks for it.
void require_shared_state(const char *what);

} // namespace fencing
