// SPDX-License-Identifier: PostgreSQL
// resource_lock.h: who may change the fence of a resource, and who queues for it.
//
// Heavyweight object locks with the table fencing.fence as their class: never the users' advisory
// keys. The number in the tag is a hash of the name; two resources that share it exclude each
// other for a moment, nothing else: names are always compared in full.
//
//                                bucket         resource
//   seal, renew                  RowShare       Share
//   acquire, advance, release,   RowExclusive   Exclusive
//   prune, forget, seal that
//   raises the fence
//   seal over very many          Share          -
//   the same with a raise        Exclusive      -
//
// Everybody takes the bucket first, then the resource, then the row; all are held until the end of
// the transaction once something was written or sealed, and given back at once otherwise.
#pragma once

#include "pg/prelude.h"

#include "errors.h"
#include "pg/lock.h"

namespace fencing {

enum class Strength { share, exclusive };

// The longest time that a request stands in the queue of a resource at a stretch. An exclusive
// request in the queue holds up every commit behind it; between tries it holds nothing.
constexpr int lock_slice_ms = 50;

// How long everything but acquire waits for other transactions, and how often it looks.
constexpr int longest_wait_ms = 1000;
constexpr int look_every_ms = 5;

struct ResourceLock {
	LOCKTAG bucket;
	LOCKTAG exact;
	LOCKTAG queue; // what waiting callers of acquire line up for
};
static_assert(survives_longjmp<ResourceLock>);

struct LockModes {
	LOCKMODE bucket;
	LOCKMODE exact;
};

constexpr LockModes
modes_of(Strength strength)
{
	return strength == Strength::share ? LockModes{RowShareLock, ShareLock}
									   : LockModes{RowExclusiveLock, ExclusiveLock};
}

// `fences` is the table fencing.fence.
ResourceLock lock_of(Oid fences, const text *resource);
ResourceLock lock_of(const text *resource);

// False when the lock could not be had within `timeout_ms`; nothing is held then.
bool lock_resource(const ResourceLock &lock, Strength strength, int timeout_ms);
void unlock_resource(const ResourceLock &lock, Strength strength);

// Runs `attempt` under the lock, again and again until it says something else than busy: for the
// functions that wait at most a second, or lock_timeout if that is shorter, then raise 55P03. The
// lock stays when something was written.
enum class Outcome { written, nothing, busy };

template <typename Attempt>
void
change_resource(const text *resource, Strength strength, Attempt attempt)
{
	static_assert(survives_longjmp<Attempt>);

	ResourceLock lock = lock_of(resource);
	TimestampTz deadline =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), within_lock_timeout(longest_wait_ms));

	for (;;) {
		if (lock_resource(lock, strength, Min(lock_slice_ms, milliseconds_until(deadline)))) {
			Outcome outcome = attempt();

			if (outcome == Outcome::written)
				return;
			unlock_resource(lock, strength);
			if (outcome == Outcome::nothing)
				return;
		}
		if (milliseconds_until(deadline) == 0)
			raise_resource_busy(resource);
		pause(look_every_ms);
	}
}

// Sleeps until somebody who has changed the resource may have ended, at most so long. The first call of a wait may
// return at once, and a wait ends with end_wait() (wakeup.h).
void wait_for_change(const ResourceLock &lock, int milliseconds);

// The queue of acquire. The one that has joined is at its head, all others sleep behind it in
// order of arrival. `alone` is for a caller that does not wait: it joins only if nobody queues.
bool join_queue(const ResourceLock &lock, bool alone, int timeout_ms);
void leave_queue(const ResourceLock &lock, bool alone);

} // namespace fencing
