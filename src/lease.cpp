// SPDX-License-Identifier: PostgreSQL
// lease.cpp: acquire, renew, release, lookup.
//
// (1) I2: a token is drawn after the resource is locked and found free, and the lock is held until
//     the grant commits; so the tokens of a resource grow in the order of its grants, and losers
//     burn none.
// (2) I9: renew and release with a token that is not the current one change nothing and say so.
// (3) I10: the clock is read after the lock, and decides only who may acquire when.
// (4) I6: a call that does not grant gives its locks back before it returns.
//
//              acquire                      expiry
//   (none) ─────────────▶ held ────────────────────────▶ expired
//                         ▲ │ renew: stays held             │
//        acquire(steal)   └─┤                               │ acquire: held, greater token
//                           │ release                       │ release
//                           ▼                               ▼
//                        released ◀──────────────────────────
//   A new epoch ends every lease: held becomes expired.
//   prune (prune.cpp): expired or released ▶ (none)

#include "arguments.h"
#include "epoch.h"
#include "errors.h"
#include "fence.h"
#include "fence_table.h"
#include "lease_notice.h"
#include "pg/rows.h"
#include "pg/stop_point.h"
#include "resource_lock.h"
#include "seal.h"
#include "statistics.h"
#include "token.h"
#include "wakeup.h"

extern "C" {
#include "access/xact.h"
#include "utils/builtins.h"
}

// The test of the wake-ups builds with more, so that who waits is woken or finds out too late.
#ifndef FENCING_LOOK_EVERY_MS
#define FENCING_LOOK_EVERY_MS look_every_ms
#endif

namespace fencing {

namespace {

enum class Steal { never, same_holder, always };

struct Request {
	const text *resource;
	const Interval *ttl;
	const text *holder; // null: none
	int wait_ms;
	Steal steal;
};
static_assert(survives_longjmp<Request>);

// A lease of an earlier epoch is over: what was granted after it may have been lost.
bool
has_lease(const FenceRow &row)
{
	return !row.external && !row.released_at && core::epoch_of(row.token) >= current_epoch();
}

// Whether others have to wait for the lease of this row.
bool
has_live_lease(const FenceRow &row, TimestampTz now)
{
	return has_lease(row) && *row.expires_at > now;
}

// Whether a lease stands that the caller takes over at once. It queues for nothing then: who waits
// for that lease to end does not lose a turn.
bool
takes_over(const Request &request, const std::optional<FenceRow> &row)
{
	if (request.steal == Steal::never || !row || !has_live_lease(*row, GetCurrentTimestamp()))
		return false;
	return request.steal == Steal::always ||
		(row->holder != nullptr && view_of(row->holder) == view_of(request.holder));
}

bool
may_grant(const Request &request, const std::optional<FenceRow> &row)
{
	if (!row)
		return true;
	if (row->external)
		raise_other_issuer(request.resource, /*external=*/true);
	if (row->being_changed)
		return false;
	return !has_live_lease(*row, GetCurrentTimestamp()) || takes_over(request, row);
}

// Grants if the lease is still free once the resource is locked. The lock stays with a grant.
std::optional<FenceRow>
try_grant(const Request &request, const ResourceLock &lock, int timeout_ms)
{
	FENCING_STOP_POINT("acquire_looked");
	if (!lock_resource(lock, Strength::exclusive, timeout_ms))
		return std::nullopt;

	std::optional<FenceRow> row = read_fence(request.resource);

	if (may_grant(request, row)) {
		// After the lock: a caller that has waited longer than its ttl gets the full ttl.
		TimestampTz now = GetCurrentTimestamp();
		FenceRow granted{{}, request.resource, 0, /*external=*/false, request.holder, request.ttl,
			now, expiry(now, request.ttl), std::nullopt, false, InvalidTransactionId};

		// The draw waits for an open ALTER SEQUENCE only.
		with_lock_timeout(within_lock_timeout(longest_wait_ms),
			[&] { granted.token = draw_token(row ? row->token : 0); });
		FENCING_STOP_POINT("acquire_drawn");
		if (!row) {
			insert_fence(granted);
			return granted;
		}
		granted.version = row->version;
		if (update_fence(granted) == Written::done) {
			if (has_live_lease(*row, now))
				log_takeover(*row, granted);
			return granted;
		}
	}
	unlock_resource(lock, Strength::exclusive);
	return std::nullopt;
}

std::optional<FenceRow>
acquire(const Request &request)
{
	bool alone = request.wait_ms == 0;
	bool queued = false;
	ResourceLock lock = lock_of(request.resource);
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), request.wait_ms);
	std::optional<FenceRow> granted;

	for (;;) {
		// The look without any lock: a caller that gets nothing disturbs nobody.
		std::optional<FenceRow> row = read_fence(request.resource);
		bool grantable = may_grant(request, row);
		int left_ms = milliseconds_until(deadline);

		if (alone && !grantable)
			break;
		if (!queued && !takes_over(request, row)) {
			queued = join_queue(lock, alone, left_ms);
			if (!queued)
				break; // and not return: the wait may have begun
			if (!alone)
				continue; // look again: it may have waited
		}
		if (grantable)
			granted = try_grant(request, lock, alone ? lock_slice_ms : Min(lock_slice_ms, left_ms));
		if (granted || left_ms == 0)
			break;
		wait_for_change(lock, Min(FENCING_LOOK_EVERY_MS, left_ms));
	}
	end_wait();
	if (queued)
		leave_queue(lock, alone);
	if (granted) {
		commit_durably();
		notify_lease("granted", granted->token, granted->resource);
		count(Counter::grants);
	}
	return granted;
}

bool
was_granted(const std::optional<FenceRow> &row, std::int64_t token)
{
	return row && row->token == token && has_lease(*row);
}

// What the look without a lock can say. A token above the fence may come from a grant that is not
// committed yet: that has to be waited for, since "lost" is no answer to waiting.
bool
is_lost(const std::optional<FenceRow> &row, std::int64_t token)
{
	return row && (row->external || token <= row->token) && !was_granted(row, token);
}

// Moves the expiry, or returns nothing when the lease is lost.
std::optional<TimestampTz>
renew(const text *resource, std::int64_t token, const Interval *ttl)
{
	std::optional<TimestampTz> renewed;

	if (is_lost(read_fence(resource), token))
		return std::nullopt;
	change_resource(resource, Strength::share, [&] {
		std::optional<FenceRow> row = read_fence(resource);

		if (!was_granted(row, token))
			return Outcome::nothing;
		// Before the clock: an open renewal by another connection of the holder may save the lease.
		if (row->being_changed)
			return Outcome::busy;

		TimestampTz now = GetCurrentTimestamp();

		if (!has_live_lease(*row, now))
			return Outcome::nothing;
		if (ttl != nullptr)
			row->ttl = ttl;
		row->expires_at = expiry(now, row->ttl);
		if (update_fence(*row) != Written::done)
			return Outcome::busy;
		renewed = row->expires_at;
		return Outcome::written;
	});
	return renewed;
}

bool
release(const text *resource, std::int64_t token)
{
	bool released = false;

	if (is_lost(read_fence(resource), token))
		return false;
	change_resource(resource, Strength::exclusive, [&] {
		std::optional<FenceRow> row = read_fence(resource);

		if (!was_granted(row, token))
			return Outcome::nothing;
		row->released_at = GetCurrentTimestamp();
		if (update_fence(*row) != Written::done)
			return Outcome::busy;
		released = true;
		return Outcome::written;
	});
	if (released)
		notify_lease("released", token, resource);
	return released;
}

Datum
lease_datum(TupleDesc description, const FenceRow &row)
{
	bool leased = has_lease(row);
	bool nulls[6] = {false, false, !leased || row.holder == nullptr, !leased, !leased, !leased};
	Datum values[6] = {PointerGetDatum(row.resource), Int64GetDatum(row.token),
		PointerGetDatum(row.holder), PointerGetDatum(row.ttl),
		TimestampTzGetDatum(row.acquired_at.value_or(0)),
		TimestampTzGetDatum(row.expires_at.value_or(0))};

	return HeapTupleGetDatum(heap_form_tuple(description, values, nulls));
}

Steal
steal_argument(FunctionCallInfo fcinfo, int number)
{
	require_argument(fcinfo, number, "steal");

	std::string_view word = view_of(PG_GETARG_TEXT_PP(number));

	if (word == "never")
		return Steal::never;
	if (word == "same_holder")
		return Steal::same_holder;
	if (word != "always")
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("steal must be \"never\", \"same_holder\" or \"always\"")));
	return Steal::always;
}

// A waiting call pins a snapshot, so a longer wait is the client's loop.
int
wait_argument(FunctionCallInfo fcinfo, int number)
{
	std::int64_t wait = span_argument(fcinfo, number, "wait");

	if (wait > USECS_PER_MINUTE)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("wait must be at most 1 minute"),
				errhint("To wait longer, call again.")));
	return static_cast<int>((wait + 999) / 1000);
}

Request
acquire_request(FunctionCallInfo fcinfo)
{
	Request request;

	request.resource = resource_argument(fcinfo, 0);
	request.ttl = ttl_argument(fcinfo, 1);
	request.holder = PG_ARGISNULL(2) ? nullptr : PG_GETARG_TEXT_PP(2);
	request.wait_ms = wait_argument(fcinfo, 3);
	request.steal = steal_argument(fcinfo, 4);
	if (request.steal == Steal::same_holder && request.holder == nullptr)
		ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("holder must not be NULL"),
				errdetail("steal => 'same_holder' has to say which.")));
	return request;
}

// A grant protects what is read with a snapshot taken after it. In a block at these levels the
// snapshot is older and stays.
void
require_fresh_snapshots()
{
	if (IsolationUsesXactSnapshot() && IsTransactionBlock())
		ereport(ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				errmsg("fencing.acquire() cannot run inside a transaction block at isolation level "
					   "REPEATABLE READ or SERIALIZABLE"),
				errhint("Acquire first, COMMIT, then begin the transaction that works.")));
}

} // namespace

} // namespace fencing

FENCING_FUNCTION(fencing_acquire)
{
	return fencing::return_row_or_none(fcinfo, [&](TupleDesc description) -> std::optional<Datum> {
		fencing::Request request = fencing::acquire_request(fcinfo);

		fencing::require_fresh_snapshots();
		fencing::begin_change("fencing.acquire()");
		std::optional<fencing::FenceRow> granted = fencing::acquire(request);

		if (!granted)
			return std::nullopt;
		return fencing::lease_datum(description, *granted);
	});
}

FENCING_FUNCTION(fencing_renew)
{
	const text *resource = fencing::resource_argument(fcinfo, 0);
	std::int64_t token = fencing::token_argument(fcinfo, 1);
	const Interval *ttl = PG_ARGISNULL(2) ? nullptr : fencing::ttl_argument(fcinfo, 2);

	fencing::begin_change("fencing.renew()");
	std::optional<TimestampTz> renewed = fencing::renew(resource, token, ttl);

	if (!renewed) {
		fencing::count(fencing::Counter::renewals_lost);
		PG_RETURN_NULL();
	}
	PG_RETURN_TIMESTAMPTZ(*renewed);
}

FENCING_FUNCTION(fencing_release)
{
	const text *resource = fencing::resource_argument(fcinfo, 0);
	std::int64_t token = fencing::token_argument(fcinfo, 1);

	fencing::begin_change("fencing.release()");
	PG_RETURN_BOOL(fencing::release(resource, token));
}

FENCING_FUNCTION(fencing_lookup)
{
	return fencing::return_row_or_none(fcinfo, [&](TupleDesc description) -> std::optional<Datum> {
		std::optional<fencing::FenceRow> row =
			fencing::read_fence(fencing::resource_argument(fcinfo, 0));

		if (!row)
			return std::nullopt;
		return fencing::lease_datum(description, *row);
	});
}
