// SPDX-License-Identifier: PostgreSQL
// guard.cpp: the triggers that refuse stale writes.
//
// (1) I4: no enforced write leaves a row with a lower token than it had, or with none where one
//     stood.
// (2) I7: each write carries a token or is refused. NEW.token = OLD.token proves nothing: a
//     statement that does not name the token column carries none.
// (3) I8: a refusal is an error, never a row that is silently skipped.

#include "pg/prelude.h"

#include "core/verdict.h"
#include "errors.h"
#include "guard_trigger.h"
#include "settings.h"
#include "statement.h"

extern "C" {
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
}

namespace fencing {

namespace {

// A guard trigger, made ready once for each statement.
struct Guard {
	Statement *statement;
	AttrNumber column;
	core::Source source;
	core::Missing missing;
	core::Mode mode;
};
static_assert(survives_longjmp<Guard>);

void
raise_protocol(const Trigger *trigger, const char *what)
{
	ereport(ERROR,
		(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			errmsg("trigger \"%s\" must be fired %s", trigger->tgname, what)));
}

const TriggerData *
trigger_data(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("function %s was not called by trigger manager", function)));
	return reinterpret_cast<const TriggerData *>(fcinfo->context);
}

// A guard with gaps would look like one without: every event, every column, no condition.
void
require_row_trigger(const TriggerData *data)
{
	const Trigger *trigger = data->tg_trigger;

	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event))
		raise_protocol(trigger, "BEFORE, FOR EACH ROW");
	if (!TRIGGER_FOR_INSERT(trigger->tgtype) || !TRIGGER_FOR_UPDATE(trigger->tgtype) ||
		!TRIGGER_FOR_DELETE(trigger->tgtype))
		raise_protocol(trigger, "for INSERT OR UPDATE OR DELETE");
	if (trigger->tgnattr > 0)
		raise_protocol(trigger, "for UPDATE of any column");
	if (trigger->tgqual != nullptr)
		raise_protocol(trigger, "without a WHEN condition");
}

Guard *
guard_of(FunctionCallInfo fcinfo, const TriggerData *data)
{
	if (fcinfo->flinfo->fn_extra != nullptr)
		return static_cast<Guard *>(fcinfo->flinfo->fn_extra);

	require_row_trigger(data);

	core::GuardOptions options =
		read_guard_options(data->tg_trigger->tgargs, data->tg_trigger->tgnargs);
	auto *guard =
		static_cast<Guard *>(MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(Guard)));

	guard->column = token_column_of(data->tg_relation, options.token_column);
	require_no_default_token(data->tg_relation, guard->column);
	guard->source = options.source;
	guard->missing = options.missing;
	guard->mode = options.mode;
	guard->statement = statement_of(fcinfo->flinfo);
	fcinfo->flinfo->fn_extra = guard;
	return guard;
}

Oid
column_type(const TriggerData *data, const Guard *guard)
{
	return TupleDescAttr(RelationGetDescr(data->tg_relation), guard->column - 1)->atttypid;
}

std::int64_t
token_in(const TriggerData *data, const Guard *guard, TupleTableSlot *slot)
{
	bool is_null;
	Datum value = slot_getattr(slot, guard->column, &is_null);

	if (is_null)
		return core::no_token;
	switch (column_type(data, guard)) {
	case INT2OID:
		return DatumGetInt16(value);
	case INT4OID:
		return DatumGetInt32(value);
	default:
		return DatumGetInt64(value);
	}
}

Datum
token_datum(const TriggerData *data, const Guard *guard, std::int64_t token)
{
	Oid type = column_type(data, guard);

	if ((type == INT2OID && token > PG_INT16_MAX) || (type == INT4OID && token > PG_INT32_MAX))
		ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				errmsg("fencing token %lld is out of range for column \"%s\"",
					static_cast<long long>(token),
					NameStr(TupleDescAttr(RelationGetDescr(data->tg_relation), guard->column - 1)
								->attname)),
				errhint("Use a token column of type bigint."),
				errtablecol(data->tg_relation, guard->column)));
	switch (type) {
	case INT2OID:
		return Int16GetDatum(static_cast<std::int16_t>(token));
	case INT4OID:
		return Int32GetDatum(static_cast<std::int32_t>(token));
	default:
		return Int64GetDatum(token);
	}
}

HeapTuple
stamp(const TriggerData *data, const Guard *guard, HeapTuple tuple, std::int64_t token)
{
	TupleDesc description = RelationGetDescr(data->tg_relation);
	int column = guard->column;
	// None is NULL, or 0 where the column must not be NULL.
	bool is_null = token == core::no_token && !TupleDescAttr(description, column - 1)->attnotnull;
	Datum value = token_datum(data, guard, token);

	return heap_modify_tuple_by_cols(tuple, description, 1, &column, &value, &is_null);
}

// Whether the statement itself gives the token column a value; triggers do not count.
bool
statement_names_token(const TriggerData *data, const Guard *guard)
{
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		return true; // a default is NULL or 0, which is none
	return TRIGGER_FIRED_BY_UPDATE(data->tg_event) &&
		bms_is_member(guard->column - FirstLowInvalidHeapAttributeNumber, data->tg_updatedcols);
}

const char *
missing_hint(const TriggerData *data, const Guard *guard)
{
	if (settings::has_left_over_token())
		return "The setting fencing.token counts only in the transaction that sets it: BEGIN; SET "
			   "LOCAL fencing.token = ...; the write; COMMIT.";
	if (TRIGGER_FIRED_BY_DELETE(data->tg_event))
		return "SET LOCAL fencing.token in this transaction: a DELETE names no column.";
	if (guard->source == core::Source::transaction)
		return "SET LOCAL fencing.token in this transaction; the token column does not count.";
	return "Give the token column the token in the same statement, or SET LOCAL fencing.token in "
		   "this transaction.";
}

struct Write {
	std::int64_t in_row;    // 0: none, or there is no row yet
	std::int64_t presented; // 0: none
};

// An error, or a warning in observe mode.
void
refuse(const TriggerData *data, const Guard *guard, core::Verdict verdict, Write write, int level)
{
	const char *table = RelationGetRelationName(data->tg_relation);
	const char *trigger = data->tg_trigger->tgname;

	if (verdict == core::Verdict::stale)
		ereport(level,
			(errcode(ERRCODE_STALE_TOKEN),
				errmsg("stale fencing token for table \"%s\"", table),
				errdetail("Presented token %lld, current token %lld.",
					static_cast<long long>(write.presented), static_cast<long long>(write.in_row)),
				errhint("%s", stale_hint), errtablecol(data->tg_relation, guard->column),
				err_generic_string(PG_DIAG_CONSTRAINT_NAME, trigger)));
	else if (verdict == core::Verdict::missing)
		ereport(level,
			(errcode(ERRCODE_MISSING_TOKEN),
				errmsg("write to table \"%s\" carries no fencing token", table),
				write.in_row == core::no_token
					? 0
					: errdetail("Current token %lld.", static_cast<long long>(write.in_row)),
				errhint("%s", missing_hint(data, guard)), errtablecol(data->tg_relation, guard->column),
				err_generic_string(PG_DIAG_CONSTRAINT_NAME, trigger)));
	else
		ereport(level,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("fencing token for table \"%s\" must be 1 or more", table),
				errdetail("It is %lld.", static_cast<long long>(write.presented)),
				errtablecol(data->tg_relation, guard->column),
				err_generic_string(PG_DIAG_CONSTRAINT_NAME, trigger)));
}

bool
observes(core::Mode mode)
{
	return mode == core::Mode::observe ||
		settings::enforcement() == settings::Enforcement::observe;
}

// Judges the write, raises or warns, and returns the token that the row has to carry from then on.
std::int64_t
judge(const TriggerData *data, const Guard *guard, Write write)
{
	core::Verdict verdict = core::judge_row(write.in_row, write.presented);

	if (verdict == core::Verdict::accepted)
		return write.presented;
	if (verdict == core::Verdict::missing && guard->missing == core::Missing::allow)
		return write.in_row;
	refuse(data, guard, verdict, write, observes(guard->mode) ? WARNING : ERROR);
	return verdict == core::Verdict::missing ? write.in_row : write.presented;
}

std::int64_t
presented_token(const TriggerData *data, const Guard *guard, std::int64_t in_new)
{
	if (std::optional<std::int64_t> token = settings::transaction_token())
		return *token;
	if (guard->source == core::Source::any && statement_names_token(data, guard))
		return in_new;
	return core::no_token;
}

HeapTuple
guard_delete(const TriggerData *data, const Guard *guard)
{
	if (!is_delete_leg(guard->statement, RelationGetRelid(data->tg_relation),
			&data->tg_trigtuple->t_self)) {
		Write write = {token_in(data, guard, data->tg_trigslot),
			presented_token(data, guard, core::no_token)};

		(void) judge(data, guard, write);
	}
	return data->tg_trigtuple;
}

HeapTuple
guard_insert(const TriggerData *data, const Guard *guard)
{
	bool is_leg = is_insert_leg(guard->statement);
	std::int64_t in_new = token_in(data, guard, data->tg_trigslot);

	// It fires for ON CONFLICT also when nothing is inserted, and must have no side effect then.
	std::int64_t token = is_leg
		? guard->statement->token
		: judge(data, guard, {core::no_token, presented_token(data, guard, in_new)});

	return token == in_new ? data->tg_trigtuple : stamp(data, guard, data->tg_trigtuple, token);
}

HeapTuple
guard_update(const TriggerData *data, const Guard *guard)
{
	std::int64_t in_new = token_in(data, guard, data->tg_newslot);
	Write write = {
		token_in(data, guard, data->tg_trigslot), presented_token(data, guard, in_new)};
	std::int64_t token = judge(data, guard, write);

	if (data->tg_relation->rd_rel->relispartition)
		remember_admitted(guard->statement, RelationGetRelid(data->tg_relation),
			&data->tg_trigtuple->t_self, token);
	return token == in_new ? data->tg_newtuple : stamp(data, guard, data->tg_newtuple, token);
}

HeapTuple
unguarded(const TriggerData *data)
{
	return TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
}

void
guard_truncate(const TriggerData *data)
{
	const Trigger *trigger = data->tg_trigger;

	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		raise_protocol(trigger, "BEFORE TRUNCATE");

	core::GuardOptions options = read_guard_options(trigger->tgargs, trigger->tgnargs);

	AttrNumber column = token_column_of(data->tg_relation, options.token_column);

	if (options.missing == core::Missing::allow ||
		settings::enforcement() == settings::Enforcement::off)
		return;
	// No token could speak for all the rows of a table at once.
	ereport(observes(options.mode) ? WARNING : ERROR,
		(errcode(ERRCODE_MISSING_TOKEN),
			errmsg("TRUNCATE of table \"%s\" carries no fencing token",
				RelationGetRelationName(data->tg_relation)),
			errhint("Use DELETE with a token, or fencing.unprotect() the table."),
			errtablecol(data->tg_relation, column),
			err_generic_string(PG_DIAG_CONSTRAINT_NAME, trigger->tgname)));
}

} // namespace

} // namespace fencing

FENCING_FUNCTION(fencing_guard)
{
	const TriggerData *data = fencing::trigger_data(fcinfo, "fencing.guard");
	fencing::Guard *guard = fencing::guard_of(fcinfo, data);

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
	fencing::guard_truncate(fencing::trigger_data(fcinfo, "fencing.guard_truncate"));
	PG_RETURN_DATUM(Datum(0)); // a trigger must not set the NULL flag
}
