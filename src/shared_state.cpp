// SPDX-License-Identifier: PostgreSQL
// shared_state.cpp: one area with everything that all backends of the server share.

#include "shared_state.h"

#include "pg/shared_memory.h"

namespace fencing {

namespace {

// A new number for each new layout.
constexpr const char *area_name = "fencing 1";

void
make_state(void *area)
{
	auto *state = static_cast<SharedState *>(area);

	make_wakeups(&state->wakeups);
	make_statistics(&state->statistics);
	make_refusal_log(&state->refusals);
	make_bindings(&state->bindings);
}

} // namespace

void
register_shared_state()
{
	register_shared_memory(area_name, sizeof(SharedState), make_state);
}

SharedState *
shared_state()
{
	return static_cast<SharedState *>(shared_memory());
}

void
require_shared_state(const char *what)
{
	if (shared_state() == nullptr)
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("%s needs fencing in shared_preload_libraries", what),
				errhint("Before PostgreSQL 17 only a preloaded library gets shared memory. Leases, "
						"guards and all promises do without it.")));
}

} // namespace fencing
