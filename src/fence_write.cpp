// SPDX-License-Identifier: PostgreSQL
// fence_write.cpp: the rows of fencing.fence, written. No write waits for a row.

#include "fence_columns.h"
#include "fence_table.h"
#include "pg/lock.h"
#include "resource_lock.h"

extern "C" {
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "utils/snapmgr.h"
}

namespace fencing {

namespace {

void
fill_time(TupleTableSlot *slot, Column column, const std::optional<TimestampTz> &time)
{
	slot->tts_isnull[column] = !time;
	slot->tts_values[column] = time ? TimestampTzGetDatum(*time) : Datum(0);
}

TupleTableSlot *
slot_of(Relation fences, const FenceRow &row)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(fences), &TTSOpsVirtual);

	slot->tts_tableOid = RelationGetRelid(fences);
	slot->tts_values[resource] = PointerGetDatum(row.resource);
	slot->tts_values[token] = Int64GetDatum(row.token);
	slot->tts_values[external] = BoolGetDatum(row.external);
	slot->tts_values[holder] = PointerGetDatum(row.holder);
	slot->tts_values[ttl] = PointerGetDatum(row.ttl);
	slot->tts_isnull[resource] = slot->tts_isnull[token] = slot->tts_isnull[external] = false;
	slot->tts_isnull[holder] = row.holder == nullptr;
	slot->tts_isnull[ttl] = row.ttl == nullptr;
	fill_time(slot, acquired_at, row.acquired_at);
	fill_time(slot, expires_at, row.expires_at);
	fill_time(slot, released_at, row.released_at);
	return ExecStoreVirtualTuple(slot);
}

void
write_index_entries(
	Relation fences, TupleTableSlot *slot, bool is_update, compat::UpdateIndexes updated)
{
	EState *estate = CreateExecutorState();
	// Whatever opening the indexes allocates goes with the state.
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
	ResultRelInfo *result = makeNode(ResultRelInfo);

	InitResultRelInfo(result, fences, /*resultRelationIndex=*/0, nullptr, 0);
	ExecOpenIndices(result, /*speculative=*/false);
	compat::insert_index_entries(result, estate, slot, is_update, updated);
	ExecCloseIndices(result);
	MemoryContextSwitchTo(caller);
	FreeExecutorState(estate);
}

Written
written(TM_Result result)
{
	switch (result) {
	case TM_Ok:
		// So that a second call in the same statement sees what the first one wrote.
		CommandCounterIncrement();
		return Written::done;
	case TM_BeingModified:
	case TM_WouldBlock:
		return Written::busy;
	case TM_Updated:
	case TM_Deleted:
		return Written::changed;
	case TM_Invisible:
	case TM_SelfModified:
		break;
	}
	elog(ERROR, "unexpected state %d of a row of fencing.fence", static_cast<int>(result));
}

} // namespace

void
insert_fence(const FenceRow &row)
{
	Relation fences = open_fences(RowExclusiveLock);
	TupleTableSlot *slot = slot_of(fences, row);

	table_tuple_insert(fences, slot, GetCurrentCommandId(true), 0, nullptr);
	// The lock of the resource keeps everybody else away, but not a row inserted by hand.
	with_lock_timeout(within_lock_timeout(longest_wait_ms),
		[&] { write_index_entries(fences, slot, /*is_update=*/false, compat::no_update_indexes); });
	ExecDropSingleTupleTableSlot(slot);
	table_close(fences, NoLock);
	CommandCounterIncrement();
}

Written
update_fence(const FenceRow &row)
{
	Relation fences = open_fences(RowExclusiveLock);
	TupleTableSlot *slot = slot_of(fences, row);
	ItemPointerData version = row.version;
	compat::UpdateIndexes updated = compat::no_update_indexes;
	TM_FailureData failure;
	TM_Result result =
		compat::tuple_update(fences, &version, slot, GetActiveSnapshot(), &failure, &updated);

	// A renewal is a HOT update, and writes no index entry.
	if (result == TM_Ok && updated != compat::no_update_indexes)
		write_index_entries(fences, slot, /*is_update=*/true, updated);
	ExecDropSingleTupleTableSlot(slot);
	table_close(fences, NoLock);
	return written(result);
}

Written
delete_fence(const FenceRow &row)
{
	Relation fences = open_fences(RowExclusiveLock);
	ItemPointerData version = row.version;
	TM_FailureData failure;
	TM_Result result = compat::tuple_delete(fences, &version, GetActiveSnapshot(), &failure);

	table_close(fences, NoLock);
	return written(result);
}

} // namespace fencing
