// SPDX-License-Identifier: PostgreSQL
// fence_table.cpp: the rows of fencing.fence, read.
//
// Straight to the table, without SPI: no plan, no privileges of the caller, no row security, no
// search_path, and no wait for a row.

#include "fence_table.h"

#include "fence_columns.h"
#include "pg/catalog.h"
#include "pg/lock.h"
#include "resource_lock.h"

extern "C" {
#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/table.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
}

namespace fencing {

namespace {

std::optional<TimestampTz>
time_of(const Datum *values, const bool *nulls, Column column)
{
	if (nulls[column])
		return std::nullopt;
	return DatumGetTimestampTz(values[column]);
}

bool
is_being_changed(HeapTupleHeader header)
{
	TransactionId changer = HeapTupleHeaderGetRawXmax(header);

	if ((header->t_infomask & HEAP_XMAX_INVALID) != 0)
		return false;
	if ((header->t_infomask & HEAP_XMAX_IS_MULTI) != 0)
		return MultiXactIdIsRunning(changer, HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask));
	return !TransactionIdIsCurrentTransactionId(changer) && TransactionIdIsInProgress(changer);
}

// Points into the tuple.
FenceRow
row_of(HeapTuple tuple, TupleDesc description)
{
	Datum values[columns];
	bool nulls[columns];

	heap_deform_tuple(tuple, description, values, nulls);
	return {tuple->t_self, DatumGetTextPP(values[resource]), DatumGetInt64(values[token]),
		DatumGetBool(values[external]), nulls[holder] ? nullptr : DatumGetTextPP(values[holder]),
		nulls[ttl] ? nullptr : DatumGetIntervalP(values[ttl]), time_of(values, nulls, acquired_at),
		time_of(values, nulls, expires_at), time_of(values, nulls, released_at),
		is_being_changed(tuple->t_data), HeapTupleHeaderGetXmin(tuple->t_data)};
}

FenceRow
row_in(TupleTableSlot *slot)
{
	return row_of(
		ExecFetchSlotHeapTuple(slot, /*materialize=*/false, nullptr), slot->tts_tupleDescriptor);
}

// A snapshot sees one version of a row. If that is the one which was seen before, it is found
// without the index. The place may hold another resource's row by now, or be gone if the same
// transaction has truncated the table.
std::optional<FenceRow>
row_seen_before(
	Relation fences, BlockNumber blocks, Snapshot snapshot, TupleTableSlot *slot, FenceKey *key)
{
	if (!ItemPointerIsValid(&key->seen) || ItemPointerGetBlockNumber(&key->seen) >= blocks ||
		!table_tuple_fetch_row_version(fences, &key->seen, snapshot, slot))
		return std::nullopt;

	FenceRow row = row_in(slot);

	if (view_of(row.resource) != view_of(key->resource))
		return std::nullopt;
	return row;
}

bool
find_by_index(IndexScanDesc scan, TupleTableSlot *slot, const text *name)
{
	ScanKeyData key;

	// ScanKeyInit compares with collation "C": bytewise, as the column does.
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(name));
	index_rescan(scan, &key, 1, nullptr, 0);
	return index_getnext_slot(scan, ForwardScanDirection, slot);
}

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
	Relation fences;
	Relation index;
	Snapshot snapshot;
	IndexScanDesc scan;
	TupleTableSlot *slot;
};

Reader reader = {};

void
open_reader(std::uint64_t statement)
{
	Oid fences = own_relation("fence");
	ResourceOwner caller = CurrentResourceOwner;

	// The lock is the transaction's; everything else is given back sooner.
	LockRelationOid(fences, AccessShareLock);

	Reader opened = {};

	opened.statement = statement;
	opened.nesting = GetCurrentTransactionNestLevel();
	opened.memory =
		AllocSetContextCreate(CurTransactionContext, "fencing reader", ALLOCSET_SMALL_SIZES);
	opened.owner = ResourceOwnerCreate(CurTransactionResourceOwner, "fencing reader");

	MemoryContext context = MemoryContextSwitchTo(opened.memory);

	CurrentResourceOwner = opened.owner;
	opened.fences = open_fences(NoLock);
	CurrentResourceOwner = caller;
	LockRelationOid(compat::primary_key_index(opened.fences), AccessShareLock);
	CurrentResourceOwner = opened.owner;
	opened.index = index_open(compat::primary_key_index(opened.fences), NoLock);
	opened.snapshot = RegisterSnapshot(GetLatestSnapshot());
	opened.scan = compat::begin_index_scan(opened.fences, opened.index, opened.snapshot);
	opened.slot = table_slot_create(opened.fences, nullptr);
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
peek_fence(const text *name, std::uint64_t statement)
{
	if (reader.owner != nullptr && reader.statement != statement)
		end_peeks();
	if (reader.owner == nullptr)
		open_reader(statement);

	ResourceOwner caller = CurrentResourceOwner;
	MemoryContext context = MemoryContextSwitchTo(reader.memory);

	CurrentResourceOwner = reader.owner;
	bool found = find_by_index(reader.scan, reader.slot, name);

	CurrentResourceOwner = caller;
	MemoryContextSwitchTo(context);
	if (!found)
		return std::nullopt;
	return row_in(reader.slot);
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
	ExecDropSingleTupleTableSlot(closing.slot);
	index_endscan(closing.scan);
	UnregisterSnapshot(closing.snapshot);
	index_close(closing.index, NoLock);
	table_close(closing.fences, NoLock);
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
	Relation fences = open_fences(AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = table_slot_create(fences, nullptr);
	// Asked for when they matter: most often each row is where it was seen.
	BlockNumber blocks = 0;
	Relation index = nullptr;
	IndexScanDesc scan = nullptr;
	FenceKey key = {};

	while (next(&key, argument)) {
		if (blocks == 0 && ItemPointerIsValid(&key.seen))
			blocks = RelationGetNumberOfBlocks(fences);

		std::optional<FenceRow> row = row_seen_before(fences, blocks, snapshot, slot, &key);

		if (!row && scan == nullptr) {
			index = index_open(compat::primary_key_index(fences), AccessShareLock);
			scan = compat::begin_index_scan(fences, index, snapshot);
		}
		if (!row && find_by_index(scan, slot, key.resource))
			row = row_in(slot);
		read(row, argument);
	}
	ExecDropSingleTupleTableSlot(slot);
	if (scan != nullptr) {
		index_endscan(scan);
		index_close(index, NoLock);
	}
	UnregisterSnapshot(snapshot);
	// Kept to the end of the transaction: what was read stays true of an installed extension.
	table_close(fences, NoLock);
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
