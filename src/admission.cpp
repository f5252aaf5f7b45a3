// SPDX-License-Identifier: PostgreSQL
// admission.cpp: whether a guarded write may pass.
//
// Which token a write carries: 1. what the transaction is bound to for the row's resource; else
// 2. the setting fencing.token; else 3. the token column, if the statement itself names it.
// NEW.token = OLD.token proves nothing.

#include "admission.h"

#include "claims.h"
#include "errors.h"
#include "fence.h"
#include "fence_table.h"
#include "pg/tuple.h"
#include "refusal_log.h"
#include "settings.h"

extern "C" {
#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
}

namespace fencing {

namespace {

Form_pg_attribute
token_attribute(const TriggerData *data, const Guard *guard)
{
	return TupleDescAttr(RelationGetDescr(data->tg_relation), guard->column - 1);
}

// 0: none.
std::int64_t
presented_token(std::int64_t named, const Claim *claim)
{
	if (claim != nullptr && claim->top->bound != core::no_token)
		return claim->top->bound;
	return settings::transaction_token().value_or(named);
}

bool
observes(const Guard *guard)
{
	return guard->mode == core::Mode::observe ||
		settings::enforcement() == settings::Enforcement::observe;
}

// An error, or a warning in observe mode; with the fields that a driver reads.
void
refuse(const TriggerData *data, const Guard *guard, const Refusal &refusal)
{
	record_refusal(refusal, data->tg_relation, observes(guard));
	ereport(observes(guard) ? WARNING : ERROR,
		(describe(refusal),
			guard->column == 0 ? errtable(data->tg_relation)
							   : errtablecol(data->tg_relation, guard->column),
			err_generic_string(PG_DIAG_CONSTRAINT_NAME, data->tg_trigger->tgname)));
}

const char *
missing_hint(const TriggerData *data, const Guard *guard)
{
	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event)) {
		if (guard->resource != nullptr && core::is_constant(guard->resource->parts))
			return "fencing.bind() the resource or SET LOCAL fencing.token in the same "
				   "transaction.";
		return "Use DELETE with a token, or fencing.unprotect() the table.";
	}
	if (settings::has_left_over_token())
		return "The setting fencing.token counts only in the transaction that sets it: BEGIN; SET "
			   "LOCAL fencing.token = ...; the write; COMMIT.";
	bool by_column = guard->column != 0 && guard->source == core::Source::any &&
		!TRIGGER_FIRED_BY_DELETE(data->tg_event);

	if (guard->resource != nullptr)
		return by_column
			? "Give the token column the token in the same statement, or fencing.bind() the "
			  "resource or SET LOCAL fencing.token in the transaction that writes: in autocommit "
			  "each statement is one of its own."
			: "fencing.bind() the resource or SET LOCAL fencing.token in the transaction that "
			  "writes: in autocommit each statement is one of its own.";
	if (by_column)
		return "Give the token column the token in the same statement, or SET LOCAL fencing.token "
			   "in this transaction.";
	if (TRIGGER_FIRED_BY_DELETE(data->tg_event))
		return "SET LOCAL fencing.token in this transaction: a DELETE names no column.";
	return "SET LOCAL fencing.token in this transaction; the token column does not count.";
}

const char *
missing_detail(std::int64_t in_row, std::string_view resource)
{
	if (!resource.empty())
		return psprintf("The resource is \"%s\".", pnstrdup(resource.data(), resource.size()));
	if (in_row == core::no_token)
		return nullptr;
	return psprintf("Current token %lld.", static_cast<long long>(in_row));
}

void
refuse_missing(
	const TriggerData *data, const Guard *guard, std::int64_t in_row, std::string_view resource)
{
	if (guard->missing == core::Missing::allow)
		return;
	refuse(data, guard,
		{ERRCODE_MISSING_TOKEN,
			psprintf("%s table \"%s\" carries no fencing token",
				TRIGGER_FIRED_BY_TRUNCATE(data->tg_event) ? "TRUNCATE of" : "write to",
				RelationGetRelationName(data->tg_relation)),
			missing_detail(in_row, resource), missing_hint(data, guard), resource, 0, in_row});
}

void
refuse_row(const TriggerData *data, const Guard *guard, core::Verdict verdict,
	std::int64_t presented, std::int64_t in_row)
{
	const char *table = RelationGetRelationName(data->tg_relation);
	auto given = static_cast<long long>(presented);

	if (verdict == core::Verdict::stale)
		refuse(data, guard,
			{ERRCODE_STALE_TOKEN, psprintf("stale fencing token for table \"%s\"", table),
				psprintf("Presented token %lld, current token %lld.", given,
					static_cast<long long>(in_row)),
				stale_hint, {}, presented, in_row});
	else
		refuse(data, guard,
			{ERRCODE_INVALID_PARAMETER_VALUE,
				psprintf("fencing token for table \"%s\" must be 1 or more", table),
				psprintf("It is %lld.", given), nullptr});
}

// Whether this statement has admitted the same claim already: a bulk write over one resource costs
// one look at its fence.
bool
is_admitted_already(const Guard *guard, const Claim *claim, std::int64_t presented)
{
	return claim != nullptr && claim->checked == guard->statement->serial &&
		claim->top->external == guard->external && claim->top->highest == presented &&
		claim->top->lowest[!observes(guard)] == presented;
}

// The early check of a resource, repeated by the seal. True when the token may pass; it is
// remembered then.
bool
admit_resource(const TriggerData *data, Guard *guard, std::string_view resource, Claim *claim,
	std::int64_t presented)
{
	require_open_claims();
	if (is_admitted_already(guard, claim, presented))
		return true;

	const text *name = cstring_to_text_with_len(resource.data(), static_cast<int>(resource.size()));
	std::optional<FenceRow> row = peek_fence(
		{name, claim != nullptr ? claim->seen : ItemPointerData{}}, guard->statement->serial);
	core::FenceState state = state_of(row, claim);
	core::Verdict verdict = judge(state, claim, guard->external, presented);

	// A trigger may have acquired it since the statement began.
	if (verdict != core::Verdict::accepted) {
		row = read_fence(name);
		state = state_of(row, claim);
		verdict = judge(state, claim, guard->external, presented);
	}
	if (verdict != core::Verdict::accepted) {
		refuse(data, guard, refusal_of(verdict, name, presented, state, row, guard->external));
		return false;
	}
	// Under a binding as well: the binding may be renewed with a greater token, the row keeps this one.
	claim = claim_write(resource, guard->external, presented, !observes(guard));
	mark_checked(claim, guard->statement->serial, row ? &row->version : nullptr);
	guard->last_claim = claim;
	return true;
}

// The claim of a resource; most often that of the row before.
Claim *
claim_of(Guard *guard, std::string_view resource)
{
	if (guard->last_claim == nullptr || view_of(guard->last_claim->resource) != resource)
		guard->last_claim = find_claim(resource);
	return guard->last_claim != nullptr && guard->last_claim->top != nullptr ? guard->last_claim
																			 : nullptr;
}

// What the write carries for one resource; false when it carries nothing, which is refused here
// unless it is allowed. In observe mode a token that would be refused passes.
bool
carries_token_for(const TriggerData *data, Guard *guard, std::string_view resource,
	const Write &write, std::int64_t *presented)
{
	Claim *claim = claim_of(guard, resource);

	*presented = presented_token(write.named, claim);
	if (*presented == core::no_token) {
		refuse_missing(data, guard, write.in_old, resource);
		return false;
	}
	(void)admit_resource(data, guard, resource, claim, *presented);
	return true;
}

// An UPDATE that moves a row from one resource to another needs a valid token for both.
bool
carries_token(const TriggerData *data, Guard *guard, const Write &write, std::int64_t *presented)
{
	if (guard->resource == nullptr) {
		*presented = presented_token(write.named, nullptr);
		if (*presented == core::no_token)
			refuse_missing(data, guard, write.in_old, {});
		return *presented != core::no_token;
	}

	ResourceName name;

	if (write.old_row != nullptr) {
		resource_of_row(guard->resource, write.old_row, &name);
		if (!carries_token_for(data, guard, name.view(), write, presented))
			return false;
		if (write.new_row == nullptr)
			return true;

		ResourceName new_name;

		resource_of_row(guard->resource, write.new_row, &new_name);
		return new_name.view() == name.view() ||
			carries_token_for(data, guard, new_name.view(), write, presented);
	}
	resource_of_row(guard->resource, write.new_row, &name);
	return carries_token_for(data, guard, name.view(), write, presented);
}

} // namespace

std::int64_t
token_in(const TriggerData *data, const Guard *guard, TupleTableSlot *row)
{
	if (guard->column == 0)
		return core::no_token;

	bool is_null;
	Datum value = slot_getattr(row, guard->column, &is_null);

	if (is_null)
		return core::no_token;
	switch (token_attribute(data, guard)->atttypid) {
	case INT2OID:
		return DatumGetInt16(value);
	case INT4OID:
		return DatumGetInt32(value);
	default:
		return DatumGetInt64(value);
	}
}

HeapTuple
with_token(const TriggerData *data, const Guard *guard, HeapTuple row, std::int64_t token)
{
	Form_pg_attribute attribute = token_attribute(data, guard);
	// None is NULL, or 0 where the column must not be NULL.
	bool is_null = token == core::no_token && !attribute->attnotnull;
	Datum value;

	if ((attribute->atttypid == INT2OID && token > PG_INT16_MAX) ||
		(attribute->atttypid == INT4OID && token > PG_INT32_MAX))
		ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				errmsg("fencing token %lld is out of range for column \"%s\"",
					static_cast<long long>(token), NameStr(attribute->attname)),
				errhint("Use a token column of type bigint."),
				errtablecol(data->tg_relation, guard->column)));
	switch (attribute->atttypid) {
	case INT2OID:
		value = Int16GetDatum(static_cast<std::int16_t>(token));
		break;
	case INT4OID:
		value = Int32GetDatum(static_cast<std::int32_t>(token));
		break;
	default:
		value = Int64GetDatum(token);
	}
	return with_value(row, RelationGetDescr(data->tg_relation), guard->column, value, is_null);
}

std::int64_t
named_token(const TriggerData *data, const Guard *guard, std::int64_t in_new)
{
	if (guard->column == 0 || guard->source == core::Source::transaction)
		return core::no_token;
	// Every INSERT gives it one: a default is NULL or 0, which is none.
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event) ||
		bms_is_member(guard->column - FirstLowInvalidHeapAttributeNumber, data->tg_updatedcols))
		return in_new;
	return core::no_token;
}

std::int64_t
admit(const TriggerData *data, Guard *guard, const Write &write)
{
	std::int64_t presented;

	// Where it is allowed to carry none, the row keeps its token.
	if (!carries_token(data, guard, write, &presented))
		return write.in_old;

	core::Verdict verdict = core::judge_row(write.in_old, presented);

	if (verdict != core::Verdict::accepted)
		refuse_row(data, guard, verdict, presented, write.in_old);
	return presented;
}

bool
belongs_to_claim(const Guard *guard, TupleTableSlot *row, const Claim *claim)
{
	if (guard->resource == nullptr || claim == nullptr)
		return true;

	ResourceName name;

	resource_of_row(guard->resource, row, &name);
	return name.view() == view_of(claim->resource);
}

void
admit_truncate(const TriggerData *data, Guard *guard)
{
	// A token speaks for all rows of the table where they belong to one resource.
	if (guard->resource == nullptr || !core::is_constant(guard->resource->parts)) {
		refuse_missing(data, guard, core::no_token, {});
		return;
	}

	ResourceName name;
	std::int64_t presented;

	resource_without_row(guard->resource, &name);
	(void)carries_token_for(data, guard, name.view(), {}, &presented);
}

} // namespace fencing
