// SPDX-License-Identifier: PostgreSQL
// fence_look.cpp: one look after another at fencing.fence, as committed at one moment.
//
// Straight to the table, without SPI: no plan, no privileges of the caller, no row security, no
// search_path, and no wait for a row.

#include "fence_look.h"

#include "fence_columns.h"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
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

FenceRow
row_in(TupleTableSlot *slot)
{
	return row_of(
		ExecFetchSlotHeapTuple(slot, /*materialize=*/false, nullptr), slot->tts_tupleDescriptor);
}

// Where rows were seen, from one transaction to the next: a worker writes over the same few resources
// again and again. Nothing but a place to look first.
struct Place {
	std::uint32_t hash; // of the resource
	ItemPointerData row;
};

constexpr std::size_t places = 64;

Place last_places[places];

std::uint32_t
hash_of(const text *name)
{
	std::string_view view = view_of(name);

	return hash_bytes(
		reinterpret_cast<const unsigned char *>(view.data()), static_cast<int>(view.size()));
}

// To ask for the size is a system call, and costs more than all the rest of a look. It was asked for
// before, and since then nobody has cut the table off: that takes a lock which conflicts with ours,
// and the message about it, which makes the server forget the size, is sent before that lock is
// released and read when ours is taken.
bool
has_block(Relation fences, BlockNumber block)
{
	BlockNumber size = compat::storage_of(fences)->smgr_cached_nblocks[MAIN_FORKNUM];

	if (size == InvalidBlockNumber || block >= size)
		size = RelationGetNumberOfBlocks(fences);
	return block < size;
}

// A snapshot sees one version of a row. If that is the one which was seen before, it is found
// without the index. The place may hold another resource's row by now, or be gone.
std::optional<FenceRow>
row_at(const Look *look, ItemPointerData place, const text *name)
{
	if (!ItemPointerIsValid(&place) ||
		!has_block(look->fences, ItemPointerGetBlockNumber(&place)) ||
		!table_tuple_fetch_row_version(look->fences, &place, look->snapshot, look->slot))
		return std::nullopt;

	FenceRow row = row_in(look->slot);

	if (view_of(row.resource) != view_of(name))
		return std::nullopt;
	return row;
}

std::optional<FenceRow>
row_by_index(Look *look, const text *name)
{
	ScanKeyData key;

	if (look->scan == nullptr) {
		look->index = index_open(compat::primary_key_index(look->fences), AccessShareLock);
		look->scan = compat::begin_index_scan(look->fences, look->index, look->snapshot);
	}
	// ScanKeyInit compares with collation "C": bytewise, as the column does.
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(name));
	index_rescan(look->scan, &key, 1, nullptr, 0);
	if (!index_getnext_slot(look->scan, ForwardScanDirection, look->slot))
		return std::nullopt;
	return row_in(look->slot);
}

} // namespace

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

Look
open_look(Relation fences)
{
	return {fences, RegisterSnapshot(GetLatestSnapshot()), table_slot_create(fences, nullptr),
		nullptr, nullptr};
}

void
close_look(const Look *look)
{
	ExecDropSingleTupleTableSlot(look->slot);
	if (look->scan != nullptr) {
		index_endscan(look->scan);
		index_close(look->index, AccessShareLock);
	}
	UnregisterSnapshot(look->snapshot);
}

std::optional<FenceRow>
find_row(Look *look, const FenceKey &key)
{
	std::optional<FenceRow> row = row_at(look, key.seen, key.resource);

	if (row)
		return row;

	std::uint32_t hash = hash_of(key.resource);
	Place *place = &last_places[hash % places];

	if (place->hash == hash)
		row = row_at(look, place->row, key.resource);
	if (row)
		return row;
	row = row_by_index(look, key.resource);
	if (row)
		*place = {hash, row->version};
	return row;
}

} // namespace fencing
