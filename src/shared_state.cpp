// SPDX-License-Identifier: PostgreSQL
// shared_state.cpp: one area with everything that all backends of the server share.

#include "shared_state.h"

#include "bindings.h"
#include "pg/shared_memory.h"
#include "refusal_log.h"
#include "statistics.h"
#include "wakeup.h"

namespace fencing {

namespace {

// A new number for each new layout.
constexpr const char *area_name = "fencing 1";

struct SharedState {
	Wakeups wakeups;
	Statistics statistics;
	RefusalLog refusals;
	Bindings bindings;
};

void
make_state(void *area)
{
	auto *state = static_cast<SharedState *>(area);

	make_wakeups(&state->wakeups);
	make_statistics(&state->statistics);
	make_refusal_log(&state->refusals);
	make_bindings(&state->bindings);
}

SharedState *
shared_state()
{
	return static_cast<SharedState *>(shared_memory());
}

} // namespace

void
register_shared_state()
{
	register_shared_memory(area_name, sizeof(SharedState), make_state);
}

Bindings *
shared_bindings()
{
	SharedState *state = shared_state();

	return state != nullptr ? &state->bindings : nullptr;
}

RefusalLog *
shared_refusals()
{
	SharedState *state = shared_state();

	return state != nullptr ? &state->refusals : nullptr;
}

Statistics *
shared_statistics()
{
	SharedState *state = shared_state();

	return state != nullptr ? &state->statistics : nullptr;
}

Wakeups *
shared_wakeups()
{
	SharedState *state = shared_state();

	return state != nullptr ? &state->wakeups : nullptr;
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
