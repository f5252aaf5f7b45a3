// SPDX-License-Identifier: PostgreSQL
// statistics.cpp: counters in shared memory, by database and table; an open hash table without locks, since entries never go.

#include "statistics.h"

#include "shared_state.h"

extern "C" {
#include "common/hashfn.h"
#include "miscadmin.h"
}

namespace fencing {

namespace {

// The database's own entry: what is counted on accepted paths.
TableStatistics *of_database = nullptr;

std::uint64_t
key_of(Oid relation)
{
	return (static_cast<std::uint64_t>(MyDatabaseId) << 32) | relation;
}

// Found or made; null when there is no place.
TableStatistics *
entry_of(Statistics *statistics, Oid relation)
{
	constexpr std::size_t size = lengthof(statistics->tables);
	std::uint64_t key = key_of(relation);
	std::size_t first = murmurhash32(relation ^ murmurhash32(MyDatabaseId)) % size;

	for (std::size_t i = 0; i < size; i++) {
		TableStatistics *table = &statistics->tables[(first + i) % size];
		std::uint64_t found = pg_atomic_read_u64(&table->key);

		// What another backend has put there meanwhile is in `found` then.
		if (found == key ||
			(found == 0 &&
				(pg_atomic_compare_exchange_u64(&table->key, &found, key) || found == key)))
			return table;
	}
	return nullptr;
}

} // namespace

void
make_statistics(Statistics *statistics)
{
	for (TableStatistics &table : statistics->tables) {
		pg_atomic_init_u64(&table.key, 0);
		for (pg_atomic_uint64 &number : table.counts)
			pg_atomic_init_u64(&number, 0);
	}
}

void
count(Counter counter, Oid relation)
{
	SharedState *state = shared_state();
	TableStatistics *table = nullptr;

	if (state == nullptr)
		return;
	if (relation != InvalidOid)
		table = entry_of(&state->statistics, relation);
	if (of_database == nullptr)
		of_database = entry_of(&state->statistics, InvalidOid);
	if (table == nullptr)
		table = of_database;
	if (table != nullptr)
		pg_atomic_fetch_add_u64(&table->counts[static_cast<int>(counter)], 1);
}

TableStatistics *
next_statistics(Statistics *statistics, std::size_t *place)
{
	while (*place < lengthof(statistics->tables)) {
		TableStatistics *table = &statistics->tables[(*place)++];

		if (pg_atomic_read_u64(&table->key) >> 32 == MyDatabaseId)
			return table;
	}
	return nullptr;
}

Oid
relation_of(TableStatistics *table)
{
	return static_cast<Oid>(pg_atomic_read_u64(&table->key));
}

} // namespace fencing
