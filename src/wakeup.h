// SPDX-License-Identifier: PostgreSQL
// wakeup.h: waking those who wait for a resource as soon as somebody has let go of it.
//
// By the buckets of the locks (resource_lock.h). A wake-up is a hint: who is woken looks for itself, and who has to
// do without shared memory looks every look_every_ms.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "storage/condition_variable.h"
}

namespace fencing {

// Of the locks as well.
constexpr std::uint32_t resource_buckets = 128;

struct Wakeups {
	ConditionVariable changed[resource_buckets];
};

void make_wakeups(Wakeups *wakeups);

// Called once, when the library loads.
void register_wakeups();

// When the running transaction has ended, whoever waits for a resource of the bucket is woken.
void wake_at_end(std::uint32_t bucket);

// Sleeps until something of the bucket may have changed, at most so long; raises when the query was cancelled. The first
// call of a wait returns at once: what changes after that is not missed. A wait ends with end_wait().
void wait_for_change(std::uint32_t bucket, int milliseconds);
void end_wait();

} // namespace fencing
