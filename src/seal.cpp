// SPDX-License-Identifier: PostgreSQL
// seal.cpp: the check of everything that a transaction has claimed, under lock, when it commits.
//
// I5: once a grant of N has committed, nothing bound to or written with a lower token commits.
// Before the first look at a fence the seal holds the lock of its resource, shared, until the
// transaction has ended; a grant holds it exclusively from before its draw until its commit. So
// either the grant has committed, and the look with a fresh snapshot sees it, or it has to wait
// until the writes are visible to whoever is granted.
// I6: nothing is locked before the commit begins.

#include "seal.h"

#include "claims.h"
#include "fence.h"
#include "fence_table.h"
#include "pg/catalog.h"
#include "pg/hooks.h"
#include "pg/lock.h"
#include "pg/stop_point.h"
#include "pg/transaction_mark.h"
#include "resource_lock.h"
#include "settings.h"
#include "statistics.h"

extern "C" {
#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
}

namespace fencing {

namespace {

// Beyond this many locks the seal takes whole buckets: the server's lock table has room for 64 of
// each transaction by default.
constexpr std::size_t most_exact_locks = 48;

// A new holder that grants and works in one transaction may wait for the row lock of a sleeper whose
// seal waits for that grant. The sleeper is the one that has to die, so it looks for the deadlock
// long before the holder's deadlock_timeout.
constexpr int seal_deadlock_ms = 10;

int changes = 0;

// The callback that is moved; another, made when the library loads, stays whatever happens.
int newest;

// One claim and its lock. Several may share a lock.
struct Sealed {
	Claim *claim;
	ResourceLock lock;
};
static_assert(survives_longjmp<Sealed>);

int
compare_tags(const LOCKTAG &left, const LOCKTAG &right)
{
	if (left.locktag_field3 != right.locktag_field3)
		return left.locktag_field3 < right.locktag_field3 ? -1 : 1;
	if (left.locktag_field4 != right.locktag_field4)
		return left.locktag_field4 < right.locktag_field4 ? -1 : 1;
	return 0;
}

// The one order in which everybody locks: by bucket, then by resource.
extern "C" int
compare_sealed(const void *left, const void *right)
{
	const auto *a = static_cast<const Sealed *>(left);
	const auto *b = static_cast<const Sealed *>(right);
	int order = compare_tags(a->lock.bucket, b->lock.bucket);

	return order != 0 ? order : compare_tags(a->lock.exact, b->lock.exact);
}

// The claims that count, in the order in which they were made: side by side in memory, as their rows
// most often are in the table.
struct Walk {
	Claim *next; // to be read
};

bool
next_key(FenceKey *key, void *argument)
{
	const Claim *claim = static_cast<Walk *>(argument)->next;

	if (claim == nullptr)
		return false;
	*key = {claim->resource, claim->seen};
	return true;
}

// The claim whose row has been read; on to the next.
Claim *
claim_read(void *argument)
{
	auto *walk = static_cast<Walk *>(argument);
	Claim *claim = walk->next;

	CHECK_FOR_INTERRUPTS();
	walk->next = next_counting(claim->next);
	return claim;
}

void
read_claimed(void (*read)(const std::optional<FenceRow> &row, void *walk))
{
	Walk walk = {next_counting(all_claims())};

	read_fences(next_key, read, &walk);
}

bool
is_enforced(const Claim *claim)
{
	return lowest_claimed(claim->top, /*enforced=*/true) != core::no_token;
}

// A fence that reaches the token does not fall below it again, but by forget(); so a claim that needs
// no raise now never will, and one that does takes its lock exclusively from the start: two that
// upgraded would wait for each other.
void
find_raise(const std::optional<FenceRow> &row, void *walk)
{
	Claim *claim = claim_read(walk);

	claim->raises = claim->top->external && (!row || row->token < claim->top->highest);
}

std::size_t
list_claims(Sealed *list)
{
	std::size_t count = 0;
	bool external = false;
	Oid fences = own_relation("fence");

	for (Claim *claim = next_counting(all_claims()); claim != nullptr;
		 claim = next_counting(claim->next)) {
		list[count++] = {claim, lock_of(fences, claim->resource)};
		external = external || claim->top->external;
	}
	if (external)
		read_claimed(find_raise);
	qsort(list, count, sizeof(Sealed), compare_sealed);
	return count;
}

std::size_t
count_exact_locks(const Sealed *list, std::size_t count)
{
	std::size_t locks = 0;

	for (std::size_t i = 0; i < count; i++) {
		if (i == 0 || compare_tags(list[i].lock.exact, list[i - 1].lock.exact) != 0)
			locks++;
	}
	return locks;
}

// A slice at a time. An exclusive request in a queue holds up everybody behind it; and the server
// looks for a deadlock once in each wait, so that a cycle that somebody else closes later is found
// in the next slice.
bool
take_lock(const LOCKTAG &tag, LOCKMODE mode, bool waits, TimestampTz deadline, const Claim *claim)
{
	if (!waits)
		return lock_within(tag, mode, 0);
	for (;;) {
		int left_ms = milliseconds_until(deadline);

		if (left_ms == 0)
			raise_resource_busy(claim->resource);
		if (lock_within(tag, mode, Min(lock_slice_ms, left_ms), seal_deadlock_ms))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
}

// Those that share a lock: what is true of any of them.
struct Group {
	std::size_t count;
	bool raises;
	bool enforced;
};

Group
group_of(const Sealed *list, std::size_t count, LOCKTAG ResourceLock::*tag)
{
	Group group = {};

	while (group.count < count && compare_tags(list[group.count].lock.*tag, list->lock.*tag) == 0) {
		group.raises = group.raises || list[group.count].claim->raises;
		group.enforced = group.enforced || is_enforced(list[group.count].claim);
		group.count++;
	}
	return group;
}

// What was claimed in observe mode only does not hold up or break a commit: it is checked without a
// lock, and raises nothing, where the lock is not free.
void
give_up_raises(Sealed *list, std::size_t count)
{
	for (std::size_t i = 0; i < count; i++)
		list[i].claim->raises = false;
}

void
lock_exactly(Sealed *list, std::size_t count, TimestampTz deadline)
{
	Group group;

	for (std::size_t i = 0; i < count; i += group.count) {
		group = group_of(list + i, count - i, &ResourceLock::exact);

		LockModes modes = modes_of(group.raises ? Strength::exclusive : Strength::share);

		if (!take_lock(
				list[i].lock.bucket, modes.bucket, group.enforced, deadline, list[i].claim) ||
			!take_lock(list[i].lock.exact, modes.exact, group.enforced, deadline, list[i].claim))
			give_up_raises(list + i, group.count);
	}
}

void
lock_buckets(Sealed *list, std::size_t count, TimestampTz deadline)
{
	Group group;

	for (std::size_t i = 0; i < count; i += group.count) {
		group = group_of(list + i, count - i, &ResourceLock::bucket);
		if (!take_lock(list[i].lock.bucket, group.raises ? ExclusiveLock : ShareLock,
				group.enforced, deadline, list[i].claim))
			give_up_raises(list + i, group.count);
	}
}

// Raises when what was claimed does not stand any more; warns where it was only observed.
void
still_stands(const Claim *claim, const std::optional<FenceRow> &row, bool enforced)
{
	std::int64_t token = lowest_claimed(claim->top, enforced);

	if (token == core::no_token)
		return;

	core::FenceState state = state_of(row, nullptr);
	core::Verdict verdict = core::judge_resource(state, claim->top->external, token);

	if (verdict != core::Verdict::accepted)
		report(enforced ? ERROR : WARNING,
			refusal_of(verdict, claim->resource, token, state, row, claim->top->external));
}

Written
raise(const Claim *claim, const std::optional<FenceRow> &row)
{
	// A write needs one; the server has none at this point of a commit.
	PushActiveSnapshot(GetTransactionSnapshot());
	Written written = raise_fence(claim->resource, row, claim->top->highest);

	PopActiveSnapshot();
	return written;
}

void
check_claim(const std::optional<FenceRow> &row, void *walk)
{
	const Claim *claim = claim_read(walk);

	still_stands(claim, row, /*enforced=*/true);
	still_stands(claim, row, /*enforced=*/false);
	// What was only observed may be of the other issuer.
	if (!claim->top->external || (row && (!row->external || row->token >= claim->top->highest)))
		return;
	if (!is_enforced(claim)) {
		if (claim->raises && !XactReadOnly)
			(void)raise(claim, row);
		return;
	}
	PreventCommandIfReadOnly("a raise of a fence");
	// It stood when the lock was chosen and was forgotten since, or somebody changes the table by hand.
	if (!claim->raises || raise(claim, row) != Written::done)
		raise_resource_busy(claim->resource);
}

// A raise writes the table, which somebody may have locked. What is only observed does not wait.
void
reach_fences_to_raise(Sealed *list, std::size_t count, TimestampTz deadline)
{
	bool raises = false;
	bool enforced = false;

	for (std::size_t i = 0; i < count; i++) {
		raises = raises || list[i].claim->raises;
		enforced = enforced || (list[i].claim->raises && is_enforced(list[i].claim));
	}
	if (enforced)
		reach_fences(Max(milliseconds_until(deadline), 1));
	else if (raises && !reach_fences_at_once())
		give_up_raises(list, count);
}

void
seal(bool prepare)
{
	// The callback stands in the server's list twice; the first call has done it all.
	if (claims_are_closed())
		return;
	close_claims();
	if (claim_count() == 0)
		return;

	auto *list = static_cast<Sealed *>(
		MemoryContextAllocHuge(TopTransactionContext, claim_count() * sizeof(Sealed)));
	std::size_t count = list_claims(list);
	bool escalated = count_exact_locks(list, count) > most_exact_locks;
	TimestampTz deadline = TimestampTzPlusMilliseconds(
		GetCurrentTimestamp(), within_lock_timeout(settings::seal_timeout_ms()));

	if (escalated && prepare)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("cannot PREPARE a transaction over more than %zu fenced resources",
					most_exact_locks),
				errdetail("Until it is finished, it would hold up every grant of the database.")));
	reach_fences_to_raise(list, count, deadline);
	fencing::count(escalated ? Counter::escalations : Counter::seals);
	if (escalated)
		lock_buckets(list, count, deadline);
	else
		lock_exactly(list, count, deadline);
	// The snapshot is taken now, when every lock is held.
	read_claimed(check_claim);
}

extern "C" void
at_transaction_event(XactEvent event, void * /*argument*/)
{
	switch (event) {
	case XACT_EVENT_PRE_COMMIT:
		FENCING_STOP_POINT("before_commit");
		seal(/*prepare=*/false);
		break;
	case XACT_EVENT_PRE_PREPARE:
		if (changes > 0)
			ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("cannot PREPARE a transaction that has acquired, renewed, released, "
						   "advanced, pruned or forgotten a resource"),
					errhint("Commit the grant first, then work in another transaction.")));
		seal(/*prepare=*/true);
		break;
	default:
		break;
	}
}

} // namespace

void
register_seal()
{
	RegisterXactCallback(at_transaction_event, nullptr);
	call_at_statement_end([] {
		end_peeks();
		keep_seal_first();
	});
}

void
keep_seal_first()
{
	if (claim_count() == 0 || claims_are_closed())
		return;
	UnregisterXactCallback(at_transaction_event, &newest);
	RegisterXactCallback(at_transaction_event, &newest);
}

void
begin_change(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	count_until_undone(&changes);
	reach_fences(within_lock_timeout(longest_wait_ms));
}

} // namespace fencing
