// SPDX-License-Identifier: PostgreSQL
// statistics.h: how often what has happened, for each database and table; kept in shared memory until the server stops.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "port/atomics.h"
}

namespace fencing {

enum class Counter : int { grants, renewals_lost, refusals, observed, seals, escalations };

constexpr int counters = 6;

// Of one table, or of a database as far as it belongs to no table.
struct TableStatistics {
	pg_atomic_uint64 key; // 0: free; never freed again
	pg_atomic_uint64 counts[counters];
};

// A table that finds no place any more is counted with its database; a database that finds none is not counted.
struct Statistics {
	TableStatistics tables[1024];
};

void make_statistics(Statistics *statistics);

// `relation` is InvalidOid for what belongs to no table. Does nothing without shared memory.
void count(Counter counter, Oid relation = InvalidOid);

// The next entry of the running database from `*place` on; null at the end.
TableStatistics *next_statistics(Statistics *statistics, std::size_t *place);
Oid relation_of(TableStatistics *table);

} // namespace fencing
