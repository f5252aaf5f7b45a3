// SPDX-License-Identifier: PostgreSQL
// monitor.cpp: what the views fencing.refusals and fencing.stats read from shared memory.

#include "pg/rows.h"
#include "shared_state.h"

extern "C" {
#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inet.h"
#include "utils/lsyscache.h" // where get_database_name() is since 19
}

namespace fencing {

namespace {

struct RefusalCursor {
	std::uint64_t number; // to be read next; the newest first
	bool all_databases;
};

// What another encoding says beyond ASCII would be no text here.
void
use_encoding(char *value, int encoding)
{
	if (encoding == GetDatabaseEncoding())
		return;
	for (; *value != '\0'; value++) {
		if (IS_HIGHBIT_SET(*value))
			*value = '?';
	}
}

// A text, or NULL where it is empty.
Datum
text_or_null(const char *value, bool *is_null)
{
	*is_null = value == nullptr || value[0] == '\0';
	return *is_null ? Datum{0} : CStringGetTextDatum(value);
}

Datum
refusal_row(TupleDesc description, RefusalRecord &record)
{
	use_encoding(record.relation, record.encoding);
	use_encoding(record.resource, record.encoding);
	use_encoding(record.application, record.encoding);

	bool nulls[12] = {};
	Datum values[12] = {};
	char *database = get_database_name(record.database);
	char *role = GetUserNameFromId(record.role, /*noerr=*/true);

	values[0] = TimestampTzGetDatum(record.at);
	nulls[1] = database == nullptr; // dropped since
	if (database != nullptr)
		values[1] = DirectFunctionCall1(namein, CStringGetDatum(database));
	values[2] = text_or_null(record.relation, &nulls[2]);
	values[3] = text_or_null(record.resource, &nulls[3]);
	values[4] = Int64GetDatum(record.presented);
	nulls[4] = record.presented == 0;
	values[5] = Int64GetDatum(record.current);
	nulls[5] = record.current == 0;
	values[6] = CStringGetTextDatum(unpack_sql_state(record.sqlstate));
	values[7] = CStringGetTextDatum(record.observed ? "observe" : "enforce");
	nulls[8] = role == nullptr; // dropped since
	if (role != nullptr)
		values[8] = DirectFunctionCall1(namein, CStringGetDatum(role));
	values[9] = text_or_null(record.application, &nulls[9]);
	nulls[10] = record.client[0] == '\0';
	if (!nulls[10])
		values[10] = DirectFunctionCall1(inet_in, CStringGetDatum(record.client));
	values[11] = Int32GetDatum(record.pid);
	return HeapTupleGetDatum(heap_form_tuple(description, values, nulls));
}

// Whose own database it is sees its refusals; what happens in others is for pg_monitor, as all statistics are.
RefusalCursor
newest_refusal()
{
	require_shared_state("fencing.refusals");
	return {pg_atomic_read_u64(&shared_state()->refusals.last),
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS)};
}

std::optional<Datum>
next_refusal(TupleDesc description, RefusalCursor *cursor)
{
	RefusalLog *log = &shared_state()->refusals;
	std::uint64_t last = pg_atomic_read_u64(&log->last);
	RefusalRecord record;

	while (cursor->number > 0 && cursor->number + refusals_kept > last) {
		CHECK_FOR_INTERRUPTS();
		if (read_refusal(log, cursor->number--, &record) &&
			(cursor->all_databases || record.database == MyDatabaseId))
			return refusal_row(description, record);
	}
	return std::nullopt;
}

struct StatisticsCursor {
	std::size_t place;
};

std::optional<Datum>
next_row(TupleDesc description, StatisticsCursor *cursor)
{
	TableStatistics *table = next_statistics(&shared_state()->statistics, &cursor->place);
	Datum values[1 + counters];
	bool nulls[1 + counters] = {};

	if (table == nullptr)
		return std::nullopt;
	values[0] = ObjectIdGetDatum(relation_of(table));
	nulls[0] = relation_of(table) == InvalidOid;
	for (int i = 0; i < counters; i++)
		values[1 + i] =
			Int64GetDatum(static_cast<std::int64_t>(pg_atomic_read_u64(&table->counts[i])));
	return HeapTupleGetDatum(heap_form_tuple(description, values, nulls));
}

} // namespace

} // namespace fencing

FENCING_FUNCTION(fencing_get_refusals)
{
	return fencing::return_rows<fencing::RefusalCursor>(
		fcinfo, fencing::newest_refusal, fencing::next_refusal);
}

FENCING_FUNCTION(fencing_get_stats)
{
	return fencing::return_rows<fencing::StatisticsCursor>(
		fcinfo,
		[] {
			fencing::require_shared_state("fencing.stats");
			return fencing::StatisticsCursor{0};
		},
		fencing::next_row);
}
