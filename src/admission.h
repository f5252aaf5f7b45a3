// SPDX-License-Identifier: PostgreSQL
// admission.h: whether a guarded write may pass, by the row's own token and by the fence of the
// resource that the row belongs to.
#pragma once

#include "pg/prelude.h"

#include "core/verdict.h"
#include "guard_trigger.h"

namespace fencing {

// The token in a row of the guarded table; 0 for none, and where the guard has no token column.
std::int64_t token_in(const TriggerData *data, const Guard *guard, TupleTableSlot *row);

// The row with that token; 22003 when the column cannot hold it.
HeapTuple with_token(
	const TriggerData *data, const Guard *guard, HeapTuple row, std::int64_t token);

// A write, before it is judged. A row that does not exist is null.
struct Write {
	TupleTableSlot *old_row;
	TupleTableSlot *new_row;
	std::int64_t in_old; // the token of the old row; 0: none
	std::int64_t named;  // what the statement itself gives the new row; 0: none
};
static_assert(survives_longjmp<Write>);

// `in_new`, the token that stands in the new row, if the statement itself names the column: what a
// trigger has put there does not count. 0: none.
std::int64_t named_token(const TriggerData *data, const Guard *guard, std::int64_t in_new);

// Judges the write, raises (or warns, in observe mode), remembers for the seal what it claims, and
// returns the token that the row has to carry from then on; 0: none.
std::int64_t admit(const TriggerData *data, Guard *guard, const Write &write);

// Whether a row that was admitted on its way to another partition still belongs to the resource that
// it was admitted for.
bool belongs_to_claim(const Guard *guard, TupleTableSlot *row, const struct Claim *claim);

// Judges a TRUNCATE, which no token of a row can speak for.
void admit_truncate(const TriggerData *data, Guard *guard);

} // namespace fencing
