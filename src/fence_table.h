// SPDX-License-Identifier: PostgreSQL
// fence_table.h: the rows of fencing.fence, one for each resource.
//
// Read with the latest snapshot whatever the isolation level (a REPEATABLE READ transaction would
// see the past), written with the extension's rights, and never waited for: a row that another
// transaction is changing is reported as busy. The lock of the resource (resource_lock.h) is taken
// before the row, everywhere.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "storage/itemptr.h"
#include "utils/timestamp.h"
}

namespace fencing {

struct FenceRow {
	ItemPointerData version; // the row version that was read
	const text *resource;
	std::int64_t token;
	bool external;
	const text *holder;  // null: none
	const Interval *ttl; // null: issued elsewhere, as are the times
	std::optional<TimestampTz> acquired_at;
	std::optional<TimestampTz> expires_at;
	std::optional<TimestampTz> released_at;
	bool being_changed;   // by an open transaction; a write will find the row busy
	TransactionId writer; // of the version
};
static_assert(survives_longjmp<FenceRow>);

// Waits at most that long for somebody who has locked the whole table, then raises 55P03; nothing
// that follows in the transaction waits for the table.
void reach_fences(int timeout_ms);
// False when somebody has locked it.
bool reach_fences_at_once();

// The row as committed now, or as this transaction left it.
std::optional<FenceRow> read_fence(const text *resource);

// Which fence to read, and where its row was seen last in this transaction, if it was.
struct FenceKey {
	const text *resource;
	ItemPointerData seen;
};
static_assert(survives_longjmp<FenceKey>);

// The same for one resource after another of a statement, all as committed when it read the first. For
// a look that is repeated later: what the statement itself changes is not seen. The row lives until
// the next call.
std::optional<FenceRow> peek_fence(const FenceKey &key, std::uint64_t statement);

// Gives back what peek_fence() keeps open. Called when a statement ends: between statements a
// transaction must hold neither a snapshot nor a page.
void end_peeks();

// Called once, when the library loads.
void register_fence_table();

// Calls `read` with the row of each resource that `next` names until it returns false, all as committed
// at one moment, which is now. The row lives until `read` returns.
void read_fences(bool (*next)(FenceKey *key, void *argument),
	void (*read)(const std::optional<FenceRow> &row, void *argument), void *argument);

enum class Written { done, busy, changed };

// Needs the lock of the resource. insert raises 55P03 should somebody insert the row by hand.
void insert_fence(const FenceRow &row);

// Replace or delete the version that was read: `busy` when an open transaction is changing it,
// `changed` when one has; nothing is written then.
Written update_fence(const FenceRow &row);
Written delete_fence(const FenceRow &row);

// Calls `visit` for each row as committed now.
void scan_fences(void (*visit)(const FenceRow &row, void *argument), void *argument);

} // namespace fencing
