// SPDX-License-Identifier: PostgreSQL
// lock.cpp: heavyweight locks taken within a bound, and pauses.

#include "pg/lock.h"

extern "C" {
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"
}

namespace fencing {

namespace {

// Locks belong to the (sub)transaction itself, not to the portal that runs the statement: that is
// where they end up after the subtransaction below, and a lock is released from its owner.
LockAcquireResult
acquire_lock(const LOCKTAG &tag, LOCKMODE mode, bool dont_wait)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = CurTransactionResourceOwner;
	LockAcquireResult result = LockAcquire(&tag, mode, /*sessionLock=*/false, dont_wait);
	CurrentResourceOwner = owner;
	return result;
}

} // namespace

int
milliseconds_until(TimestampTz deadline)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now >= deadline)
		return 0;
	return static_cast<int>((deadline - now + 999) / 1000);
}

int
within_lock_timeout(int limit_ms)
{
	return LockTimeout > 0 && LockTimeout < limit_ms ? LockTimeout : limit_ms;
}

namespace detail {

void
call_with_timeout(int *timeout, int value_ms, void (*body)(void *), void *argument)
{
	int saved = *timeout;

	*timeout = value_ms;
	PG_TRY();
	{
		body(argument);
	}
	PG_FINALLY();
	{
		*timeout = saved;
	}
	PG_END_TRY();
}

} // namespace detail

bool
lock_within(const LOCKTAG &tag, LOCKMODE mode, int timeout_ms, int deadlock_ms)
{
	if (acquire_lock(tag, mode, /*dont_wait=*/true) != LOCKACQUIRE_NOT_AVAIL)
		return true;
	if (timeout_ms <= 0)
		return false;

	// The server can end a wait only by an error, and an error may be caught only where a
	// subtransaction is rolled back with it. When the lock is had, the subtransaction's end hands
	// it to the parent.
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	bool has_statement_timeout = get_timeout_active(STATEMENT_TIMEOUT);
	auto wait = [&] {
		(void)acquire_lock(tag, mode, /*dont_wait=*/false);
	};
	auto wait_within = [&] {
		detail::with_timeout(&DeadlockTimeout, deadlock_ms, &wait);
	};
	volatile bool had = false;

	// Two of them: a rollback asserts that what it returns to is a running transaction, which one that
	// commits is not.
	BeginInternalSubTransaction(nullptr);
	BeginInternalSubTransaction(nullptr);
	PG_TRY();
	{
		with_lock_timeout(timeout_ms, wait_within);
		ReleaseCurrentSubTransaction();
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		had = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		ErrorData *error = CopyErrorData();

		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();

	// Where both timeouts have fired, the server reports the earlier one and forgets the other.
	if (has_statement_timeout && !get_timeout_active(STATEMENT_TIMEOUT))
		ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
				errmsg("canceling statement due to statement timeout")));
	return had;
}

void
unlock(const LOCKTAG &tag, LOCKMODE mode)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = CurTransactionResourceOwner;
	(void)LockRelease(&tag, mode, /*sessionLock=*/false);
	CurrentResourceOwner = owner;
}

void
pause(int milliseconds)
{
	(void)WaitLatch(
		MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

} // namespace fencing
