// SPDX-License-Identifier: PostgreSQL
// guard.cpp: the triggers that refuse stale writes.
//
// (1) I4: no enforced write leaves a row with a lower token than it had, or with none where one
//     stood.
// (2) I5: no guarded write with a token lower than the fence of its resource commits: checked here
//     first, and again by the seal.
// (3) I7: each write carries a token or is refused.
// (4) I8: a refusal is an error, never a row that is silently skipped.

#include "pg/prelude.h"

#include "admission.h"
#include "guard_trigger.h"
#include "settings.h"
#include "statement.h"

namespace fencing {

namespace {

HeapTuple
carrying(const TriggerData *data, const Guard *guard, HeapTuple row, std::int64_t in_row,
	std::int64_t token)
{
	return guard->column == 0 || token == in_row ? row : with_token(data, guard, row, token);
}

HeapTuple
guard_delete(const TriggerData *data, Guard *guard)
{
	if (!is_delete_leg(
			guard->statement, RelationGetRelid(data->tg_relation), &data->tg_trigtuple->t_self))
		(void)admit(
			data, guard, {data->tg_trigslot, nullptr, token_in(data, guard, data->tg_trigslot), 0});
	return data->tg_trigtuple;
}

HeapTuple
guard_insert(const TriggerData *data, Guard *guard)
{
	std::int64_t in_new = token_in(data, guard, data->tg_trigslot);
	std::int64_t named = named_token(data, guard, in_new);

	if (is_insert_leg(guard->statement)) {
		// Between the legs a trigger may have swallowed the row, and this be another one.
		if (belongs_to_claim(guard, data->tg_trigslot, guard->statement->admitted.claim))
			return carrying(
				data, guard, data->tg_trigtuple, in_new, guard->statement->admitted.token);
		// What stands in the row may be what the guard has put there for another resource.
		named = guard->statement->admitted.named;
	}
	// It fires for ON CONFLICT also when nothing is inserted: no side effect beyond remembering.
	return carrying(data, guard, data->tg_trigtuple, in_new,
		admit(data, guard, {nullptr, data->tg_trigslot, 0, named}));
}

HeapTuple
guard_update(const TriggerData *data, Guard *guard)
{
	std::int64_t in_new = token_in(data, guard, data->tg_newslot);
	std::int64_t named = named_token(data, guard, in_new);
	std::int64_t token = admit(data, guard,
		{data->tg_trigslot, data->tg_newslot, token_in(data, guard, data->tg_trigslot), named});

	if (data->tg_relation->rd_rel->relispartition)
		remember_admitted(guard->statement, RelationGetRelid(data->tg_relation),
			&data->tg_trigtuple->t_self, {named, token, guard->last_claim});
	return carrying(data, guard, data->tg_newtuple, in_new, token);
}

HeapTuple
unguarded(const TriggerData *data)
{
	return TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
}

} // namespace

} // namespace fencing

FENCING_FUNCTION(fencing_guard)
{
	const TriggerData *data = fencing::trigger_data(fcinfo, "fencing.guard");
	fencing::Guard *guard = fencing::row_guard_of(fcinfo, data);

	if (fencing::settings::enforcement() == fencing::settings::Enforcement::off)
		PG_RETURN_POINTER(fencing::unguarded(data));
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		PG_RETURN_POINTER(fencing::guard_update(data, guard));
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		PG_RETURN_POINTER(fencing::guard_insert(data, guard));
	PG_RETURN_POINTER(fencing::guard_delete(data, guard));
}

FENCING_FUNCTION(fencing_guard_truncate)
{
	const TriggerData *data = fencing::trigger_data(fcinfo, "fencing.guard_truncate");
	fencing::Guard *guard = fencing::truncate_guard_of(fcinfo, data);

	if (fencing::settings::enforcement() != fencing::settings::Enforcement::off)
		fencing::admit_truncate(data, guard);
	PG_RETURN_DATUM(Datum(0)); // a trigger must not set the NULL flag
}
