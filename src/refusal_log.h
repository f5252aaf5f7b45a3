// SPDX-License-Identifier: PostgreSQL
// refusal_log.h: the last refusals of the server. Kept in shared memory, so that they outlive the rollback that they cause.
#pragma once

#include "pg/prelude.h"

#include "arguments.h"
#include "errors.h"

extern "C" {
#include "port/atomics.h"
#include "storage/spin.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
}

namespace fencing {

constexpr std::size_t refusals_kept = 1024;

struct RefusalRecord {
	TimestampTz at;
	Oid database;
	int encoding; // of the texts
	Oid role;     // of the session, or as SET ROLE says
	int pid;
	int sqlstate;
	bool observed;
	std::int64_t presented;              // 0: none
	std::int64_t current;                // 0: none
	char relation[2 * NAMEDATALEN];      // qualified; empty: none
	char resource[longest_resource + 1]; // empty: none
	char application[NAMEDATALEN];
	char client[64]; // an address; empty: a socket of the same machine
};
static_assert(survives_longjmp<RefusalRecord>);

struct RefusalSlot {
	slock_t lock;
	std::uint64_t number; // 0: never used
	RefusalRecord record;
};

// A ring: each refusal takes the next number, and the place of the oldest.
struct RefusalLog {
	pg_atomic_uint64 last;
	RefusalSlot slots[refusals_kept];
};

void make_refusal_log(RefusalLog *log);

// Keeps and counts a refusal or, observed, what would have been one; `relation` is null where it is of no table. Only
// the errors of class TK are refusals. Does nothing without shared memory.
void record_refusal(const Refusal &refusal, Relation relation, bool observed);

// The record with that number; false when a newer one has taken its place or it is just being written.
bool read_refusal(RefusalLog *log, std::uint64_t number, RefusalRecord *record);

} // namespace fencing
