// SPDX-License-Identifier: PostgreSQL
// tuple.cpp: rows as they lie in memory.

#include "pg/tuple.h"

extern "C" {
#include "access/htup_details.h"
#include "access/tupmacs.h"
}

namespace fencing {

namespace {

bool
has_value(HeapTuple row, AttrNumber column)
{
	return HeapTupleHeaderGetNatts(row->t_data) >= column &&
		(!HeapTupleHasNulls(row) || !att_isnull(column - 1, row->t_data->t_bits));
}

// Where the value of the column begins, which is there. The offsets that the descriptor remembers are for the server's own
// readers, and only for what stands before any value of varying length.
char *
place_of(HeapTuple row, TupleDesc descriptor, AttrNumber column)
{
	char *values = reinterpret_cast<char *>(row->t_data) + row->t_data->t_hoff;
	std::size_t offset = 0;

	for (int i = 0;; i++) {
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		if (HeapTupleHasNulls(row) && att_isnull(i, row->t_data->t_bits))
			continue;
		offset = att_align_pointer(offset, attribute->attalign, attribute->attlen, values + offset);
		if (i == column - 1)
			return values + offset;
		offset = att_addlength_pointer(offset, attribute->attlen, values + offset);
	}
}

} // namespace

HeapTuple
with_value(HeapTuple row, TupleDesc descriptor, AttrNumber column, Datum value, bool is_null)
{
	int number = column;

	if (is_null || !has_value(row, column))
		return heap_modify_tuple_by_cols(row, descriptor, 1, &number, &value, &is_null);

	// The new value takes the place of the old one: no need to take the row apart and to put it together again, which costs
	// several times the copy.
	HeapTuple copy = heap_copytuple(row);

	store_att_byval(
		place_of(copy, descriptor, column), value, TupleDescAttr(descriptor, column - 1)->attlen);
	return copy;
}

} // namespace fencing
