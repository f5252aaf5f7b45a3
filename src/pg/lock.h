// SPDX-License-Identifier: PostgreSQL
// lock.h: heavyweight locks taken within a bound, and pauses.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/timestamp.h"
}

namespace fencing {

// The milliseconds from now until `deadline`, rounded up; 0 when it has passed.
int milliseconds_until(TimestampTz deadline);

// For a wait that always ends by itself: its cycles are not looked for. The server would end one by
// killing whoever looks first, which may be the holder of a grant.
constexpr int no_deadlock_check = 60 * 60 * 1000;

// Takes a lock until the end of the (sub)transaction, standing in its queue for at most
// `timeout_ms`; 0 means only if it is free. False when it could not be had: nothing is held then.
// Looks for a deadlock after `deadlock_ms`. Raises what the server raises (cancel, deadlock), but
// never a lock timeout.
bool lock_within(
	const LOCKTAG &tag, LOCKMODE mode, int timeout_ms, int deadlock_ms = no_deadlock_check);

void unlock(const LOCKTAG &tag, LOCKMODE mode);

// Sleeps; wakes early for signals, and raises when the query was cancelled.
void pause(int milliseconds);

// The time that a call may wait for other transactions, at most `limit_ms`: the user's
// lock_timeout when that is set and shorter.
int within_lock_timeout(int limit_ms);

namespace detail {
void call_with_timeout(int *timeout, int value_ms, void (*body)(void *), void *argument);

template <typename Body>
void
with_timeout(int *timeout, int value_ms, Body *body)
{
	static_assert(survives_longjmp<Body>);
	call_with_timeout(
		timeout, value_ms, [](void *argument) { (*static_cast<Body *>(argument))(); }, body);
}
} // namespace detail

// Runs the body with lock_timeout set to `timeout_ms`: whatever lock it waits for, it raises 55P03
// in bounded time. The setting is restored on every way out.
template <typename Body>
void
with_lock_timeout(int timeout_ms, Body body)
{
	detail::with_timeout(&LockTimeout, timeout_ms, &body);
}

} // namespace fencing
