// SPDX-License-Identifier: PostgreSQL
// fence_look.h: how a row of fencing.fence is found: where it was seen before, else by the index.
#pragma once

#include "fence_table.h"

extern "C" {
#include "access/htup.h"
#include "access/relscan.h"
#include "executor/tuptable.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
}

namespace fencing {

// The table as committed at one moment.
struct Look {
	Relation fences;
	Snapshot snapshot;
	TupleTableSlot *slot;
	// Opened when they are needed: most often a row is where it was seen before.
	Relation index;
	IndexScanDesc scan;
};
static_assert(survives_longjmp<Look>);

// The relation stays the caller's to close.
Look open_look(Relation fences);
void close_look(const Look *look);

// The row lives until the next call.
std::optional<FenceRow> find_row(Look *look, const FenceKey &key);

// Points into the tuple.
FenceRow row_of(HeapTuple tuple, TupleDesc description);

} // namespace fencing
