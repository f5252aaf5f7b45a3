// SPDX-License-Identifier: PostgreSQL
// fence_table.cpp: the rows of fencing.fence, read.

#include "fence_table.h"

#include "fence_columns.h"
#include "fence_look.h"
#include "pg/catalog.h"
#include "pg/lock.h"
#include "resource_lock.h"

extern "C" {
#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
}

namespace fencing {

namespace {

const text *
copy_of(const text *value)
{
	if (value == nullptr)
		return nullptr;
	return static_cast<const text *>(memcpy(palloc(VARSIZE_ANY(value)), value, VARSIZE_ANY(value)));
}

FenceRow
copy_of(const FenceRow &row)
{
	FenceRow copy = row;

	copy.resource = copy_of(row.resource);
	copy.holder = copy_of(row.holder);
	if (row.ttl != nullptr)
		copy.ttl =
			static_cast<Interval *>(memcpy(palloc(sizeof(Interval)), row.ttl, sizeof(Interval)));
	return copy;
}

// What peek_fence() keeps open from one call to the next. It belongs to a resource owner of its own,
// since the statement's current one may be another at the next call.
struct Reader {
	std::uint64_t statement;
	int nesting; // of the subtransaction that opened it
	ResourceOwner owner;
	MemoryContext memory;
	Look look;
};

Reader reader = {};

void
open_reader(std::uint64_t statement)
{
	ResourceOwner caller = CurrentResourceOwner;

	// The lock is the transaction's; everything else is given back sooner.
	LockRelationOid(own_relation("fence"), AccessShareLock);

	Reader opened = {};

	opened.statement = statement;
	opened.nesting = GetCurrentTransactionNestLevel();
	opened.memory =
		AllocSetContextCreate(CurTransactionContext, "fencing reader", ALLOCSET_SMALL_SIZES);
	opened.owner = ResourceOwnerCreate(CurTransactionResourceOwner, "fencing reader");

	MemoryContext context = MemoryContextSwitchTo(opened.memory);

	CurrentResourceOwner = opened.owner;
	opened.look = open_look(open_fences(NoLock));
	CurrentResourceOwner = caller;
	MemoryContextSwitchTo(context);
	reader = opened;
}

extern "C" void
end_peeks_of_subtransaction(
	SubXactEvent event, SubTransactionId, SubTransactionId, void * /*argument*/)
{
	if (reader.owner == nullptr || reader.nesting < GetCurrentTransactionNestLevel())
		return;
	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB)
		end_peeks();
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		reader = {}; // the server releases it
}

extern "C" void
end_peeks_of_transaction(XactEvent event, void * /*argument*/)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		end_peeks();
	else if (event == XACT_EVENT_ABORT)
		reader = {};
}

} // namespace

void
register_fence_table()
{
	RegisterXactCallback(end_peeks_of_transaction, nullptr);
	RegisterSubXactCallback(end_peeks_of_subtransaction, nullptr);
}

std::optional<FenceRow>
peek_fence(const FenceKey &key, std::uint64_t statement)
{
	if (reader.owner != nullptr && reader.statement != statement)
		end_peeks();
	if (reader.owner == nullptr)
		open_reader(statement);

	ResourceOwner caller = CurrentResourceOwner;
	MemoryContext context = MemoryContextSwitchTo(reader.memory);

	CurrentResourceOwner = reader.owner;
	std::optional<FenceRow> row = find_row(&reader.look, key);

	CurrentResourceOwner = caller;
	MemoryContextSwitchTo(context);
	return row;
}

void
end_peeks()
{
	if (reader.owner == nullptr)
		return;

	Reader closing = reader;
	ResourceOwner caller = CurrentResourceOwner;

	reader = {};
	CurrentResourceOwner = closing.owner;
	close_look(&closing.look);
	table_close(closing.look.fences, NoLock);
	CurrentResourceOwner = caller;
	ResourceOwnerDelete(closing.owner);
	MemoryContextDelete(closing.memory);
}

Relation
open_fences(LOCKMODE mode)
{
	Relation fences = table_open(own_relation("fence"), mode);

	if (RelationGetDescr(fences)->natts != columns)
		elog(ERROR, "fencing.fence has %d columns instead of %d", RelationGetDescr(fences)->natts,
			columns);
	return fences;
}

void
reach_fences(int timeout_ms)
{
	with_lock_timeout(timeout_ms, [] { table_close(open_fences(RowExclusiveLock), NoLock); });
}

bool
reach_fences_at_once()
{
	return ConditionalLockRelationOid(own_relation("fence"), RowExclusiveLock);
}

void
read_fences(bool (*next)(FenceKey *key, void *argument),
	void (*read)(const std::optional<FenceRow> &row, void *argument), void *argument)
{
	Look look = open_look(open_fences(AccessShareLock));
	FenceKey key = {};

	while (next(&key, argument))
		read(find_row(&look, key), argument);
	close_look(&look);
	// Kept to the end of the transaction: what was read stays true of an installed extension.
	table_close(look.fences, NoLock);
}

std::optional<FenceRow>
read_fence(const text *name)
{
	struct One {
		const text *name; // null: read
		std::optional<FenceRow> row;
	} one = {name, std::nullopt};

	read_fences(
		[](FenceKey *key, void *argument) {
			auto *wanted = static_cast<One *>(argument);

			key->resource = wanted->name;
			ItemPointerSetInvalid(&key->seen);
			wanted->name = nullptr;
			return key->resource != nullptr;
		},
		[](const std::optional<FenceRow> &row, void *argument) {
			if (row)
				static_cast<One *>(argument)->row = copy_of(*row);
		},
		&one);
	return one.row;
}

void
scan_fences(void (*visit)(const FenceRow &row, void *argument), void *argument)
{
	Relation fences = open_fences(AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan =
		systable_beginscan(fences, InvalidOid, /*indexOK=*/false, snapshot, 0, nullptr);

	while (HeapTuple tuple = systable_getnext(scan)) {
		CHECK_FOR_INTERRUPTS();
		visit(row_of(tuple, RelationGetDescr(fences)), argument);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(fences, NoLock);
}

} // namespace fencing
