// SPDX-License-Identifier: PostgreSQL
// tuple.h: rows as they lie in memory.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "access/htup.h"
#include "access/tupdesc.h"
}

namespace fencing {

// A copy of the row, made in the current memory context, in which the column has that value. The column is of a type
// that is passed by value.
HeapTuple with_value(
	HeapTuple row, TupleDesc descriptor, AttrNumber column, Datum value, bool is_null);

} // namespace fencing
