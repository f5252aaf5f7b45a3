// SPDX-License-Identifier: PostgreSQL
// refusal_log.cpp: the last refusals of the server, in a ring in shared memory.

#include "refusal_log.h"

#include "shared_state.h"
#include "statistics.h"

extern "C" {
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
}

namespace fencing {

namespace {

constexpr bool
is_refusal(int sqlstate)
{
	return sqlstate == ERRCODE_STALE_TOKEN || sqlstate == ERRCODE_MISSING_TOKEN ||
		sqlstate == ERRCODE_UNISSUED_TOKEN;
}

// Cut at the border of a character where it is too long.
template <std::size_t size>
void
copy_text(char (&to)[size], std::string_view from)
{
	auto length = static_cast<std::size_t>(
		pg_mbcliplen(from.data(), static_cast<int>(from.size()), static_cast<int>(size) - 1));

	memcpy(to, from.data(), length);
	to[length] = '\0';
}

// By the server's own function: its port structure needs headers that its development package does not bring.
template <std::size_t size>
void
copy_client(char (&to)[size])
{
	LOCAL_FCINFO(fcinfo, 0);

	InitFunctionCallInfoData(*fcinfo, nullptr, 0, InvalidOid, nullptr, nullptr);
	Datum address = inet_client_addr(fcinfo);

	if (!fcinfo->isnull)
		copy_text(to, DatumGetCString(DirectFunctionCall1(inet_out, address)));
}

} // namespace

void
make_refusal_log(RefusalLog *log)
{
	pg_atomic_init_u64(&log->last, 0);
	for (RefusalSlot &slot : log->slots) {
		SpinLockInit(&slot.lock);
		slot.number = 0;
	}
}

void
record_refusal(const Refusal &refusal, Relation relation, bool observed)
{
	SharedState *state = shared_state();

	if (state == nullptr || !is_refusal(refusal.sqlstate))
		return;

	RefusalRecord record = {};

	record.at = GetCurrentTimestamp();
	record.database = MyDatabaseId;
	record.encoding = GetDatabaseEncoding();
	record.role = GetOuterUserId();
	record.pid = MyProcPid;
	record.sqlstate = refusal.sqlstate;
	record.observed = observed;
	record.presented = refusal.presented;
	record.current = refusal.current;
	if (relation != nullptr)
		copy_text(record.relation,
			quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
				RelationGetRelationName(relation)));
	copy_text(record.resource, refusal.resource);
	copy_text(record.application, application_name != nullptr ? application_name : "");
	copy_client(record.client);

	RefusalLog *log = &state->refusals;
	std::uint64_t number = pg_atomic_add_fetch_u64(&log->last, 1);
	RefusalSlot *slot = &log->slots[number % refusals_kept];

	// Only whoever is a whole ring behind finds a newer one there, and gives way.
	SpinLockAcquire(&slot->lock);
	if (slot->number < number) {
		slot->number = number;
		slot->record = record;
	}
	SpinLockRelease(&slot->lock);
	count(observed ? Counter::observed : Counter::refusals,
		relation != nullptr ? RelationGetRelid(relation) : InvalidOid);
}

bool
read_refusal(RefusalLog *log, std::uint64_t number, RefusalRecord *record)
{
	RefusalSlot *slot = &log->slots[number % refusals_kept];

	SpinLockAcquire(&slot->lock);
	bool found = slot->number == number;
	if (found)
		*record = slot->record;
	SpinLockRelease(&slot->lock);
	return found;
}

} // namespace fencing
