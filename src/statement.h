// SPDX-License-Identifier: PostgreSQL
// statement.h: what the guards of one running statement share, above all a row on its way from one
// partition to another.
//
// A partition move fires BEFORE UPDATE on the source, BEFORE DELETE on the source and BEFORE INSERT
// on the target, and nothing that a trigger is told says that they belong together. So the guard
// remembers the row that it has admitted, and lets the two legs that follow pass.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "storage/itemptr.h"
#include "utils/palloc.h"
}

namespace fencing {

// What was admitted for a row.
struct Admitted {
	std::int64_t named;        // the token that the statement itself gave it; 0: none
	std::int64_t token;        // what it carries from then on; 0: none
	const struct Claim *claim; // of its resource from then on; null: none
};
static_assert(survives_longjmp<Admitted>);

struct Statement {
	Statement *outer;     // the next in the list of running statements
	std::uint64_t serial; // never 0, never again in this session
	MemoryContext memory;
	MemoryContextCallback at_end;

	Oid relation;        // of the row admitted last, if it may move
	ItemPointerData row; // the version that the move would delete
	Admitted admitted;
	bool may_be_deleted;  // the next DELETE of that row is a leg of its move
	bool may_be_inserted; // the next INSERT is
};
static_assert(survives_longjmp<Statement>);

// The statement that a trigger function is called for. The server keeps a trigger's function
// information in the memory of the executor state that runs the statement, so that this memory
// tells nested statements, and the same statement run again, apart; what is remembered dies with
// it, also by an error.
Statement *statement_of(FmgrInfo *function);

// Each forgets what came before.
void remember_admitted(
	Statement *statement, Oid relation, ItemPointer row, const Admitted &admitted);
bool is_delete_leg(Statement *statement, Oid relation, ItemPointer row);
// On true the row has to carry the token admitted.
bool is_insert_leg(Statement *statement);

} // namespace fencing
