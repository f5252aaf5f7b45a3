// SPDX-License-Identifier: PostgreSQL
// sequence.h: draws from a sequence and raises it, both durable before they return.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "catalog/pg_sequence.h"
#include "utils/rel.h"
}

namespace fencing {

// Opens a sequence with the lock that nextval() takes, to be closed without releasing it: from
// here to the end of the transaction nobody can ALTER it.
Relation open_sequence(Oid sequence);
void close_sequence(Relation sequence);

// Its options; a copy.
FormData_pg_sequence sequence_options(Relation sequence);

// The value at which the sequence stands, or at which it starts.
std::int64_t sequence_value(Oid sequence);

// Draws a value. Asks for no right on the sequence. When it returns, no crash can make the server
// forget it. 0 when the next value would be greater than `most`; nothing beyond that is written to
// WAL either. Raises 2200H when the sequence is used up. `options` are those of a sequence that
// counts upwards and is not cached.
std::int64_t draw_value(Relation sequence, const FormData_pg_sequence &options, std::int64_t most);

// Moves the sequence so that every later value is greater than `above`, unless it stands there
// already; whatever is drawn meanwhile, nothing is lowered. Returns the value that the next one
// will exceed, durably. `above` must lie below the sequence's maximum.
std::int64_t raise_sequence(
	Relation sequence, const FormData_pg_sequence &options, std::int64_t above);

// Replaces the value by what `change` makes of it, in one step, durably; says whether they differ.
// `change` runs under the lock of the page, and must not raise.
bool change_value(
	Relation sequence, std::int64_t (*change)(std::int64_t value, void *argument), void *argument);

} // namespace fencing
