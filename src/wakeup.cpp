// SPDX-License-Identifier: PostgreSQL
// wakeup.cpp: waking those who wait for a resource.

#include "wakeup.h"

#include "pg/lock.h"
#include "shared_state.h"

extern "C" {
#include "access/xact.h"
#include "utils/wait_event.h"
}

namespace fencing {

namespace {

// The buckets whose resources the running transaction has locked to change them.
std::uint64_t touched[resource_buckets / 64];

// After the commit is visible and before the locks are released, for which the woken wait in their queue: the server
// wakes them from there. Also after a rollback, by which a grant is taken back. Nothing may be raised here.
extern "C" void
at_end(XactEvent event, void * /*argument*/)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;
	// A wait that were left open would be looked for when the backend exits, and the memory may be gone by then.
	end_wait();
	for (std::uint32_t word = 0; word < resource_buckets / 64; word++) {
		while (touched[word] != 0) {
			auto bit = static_cast<std::uint32_t>(__builtin_ctzll(touched[word]));

			touched[word] &= touched[word] - 1;
			ConditionVariableBroadcast(&shared_state()->wakeups.changed[word * 64 + bit]);
		}
	}
}

} // namespace

void
make_wakeups(Wakeups *wakeups)
{
	for (ConditionVariable &changed : wakeups->changed)
		ConditionVariableInit(&changed);
}

void
register_wakeups()
{
	RegisterXactCallback(at_end, nullptr);
}

void
wake_at_end(std::uint32_t bucket)
{
	// Asked for here, where it may be raised that there is no memory.
	if (shared_state() != nullptr)
		touched[bucket / 64] |= std::uint64_t{1} << (bucket % 64);
}

void
wait_for_change(std::uint32_t bucket, int milliseconds)
{
	SharedState *state = shared_state();

	if (state == nullptr)
		pause(milliseconds);
	else
		(void)ConditionVariableTimedSleep(
			&state->wakeups.changed[bucket], milliseconds, PG_WAIT_EXTENSION);
}

void
end_wait()
{
	(void)ConditionVariableCancelSleep();
}

} // namespace fencing
