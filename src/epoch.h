// SPDX-License-Identifier: PostgreSQL
// epoch.h: which epoch the database is in (I1, I5).
//
// A change of the database's identity (promotion, recovery to a point, restore, copy, upgrade) may
// have lost the last draws and grants. So it begins a new epoch: later tokens are greater than all
// that can have been lost, and every token of an earlier epoch has ended. The arithmetic is in
// core/epoch.h.
#pragma once

#include "pg/prelude.h"

#include "core/epoch.h"
#include "pg/sequence.h"

namespace fencing {

// Called once, when the library loads.
void register_epoch();

// The epoch that tokens issued here are judged by. Reads only, and works on a standby. Worked out
// once in the life of a backend, and again when somebody has begun another epoch.
std::int64_t current_epoch();

// What every draw begins with: writes down that the database is in the epoch, which is at least
// `at_least`, and moves the sequence of tokens into it; returns the epoch. Free once a backend has
// done it. Nobody waits for the caller's transaction, whose ROLLBACK undoes nothing. Raises 2200H
// when the sequence cannot reach the epoch.
std::int64_t enter_epoch(
	Relation tokens, const FormData_pg_sequence &options, std::int64_t at_least);

// Makes every backend work its epoch out again, before it judges the next time.
void announce_epoch(Relation tokens);

} // namespace fencing
