// SPDX-License-Identifier: PostgreSQL
// guard_trigger.cpp: what a guard trigger says and on which column, read and checked.

#include "guard_trigger.h"

extern "C" {
#include "catalog/pg_attribute.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
}

namespace fencing {

namespace {

char *
string_of(std::string_view view)
{
	return pnstrdup(view.data(), view.size());
}

[[noreturn]] void
raise_bad_option(const core::OptionResult &result)
{
	char *key = string_of(result.key);

	switch (result.problem) {
	case core::OptionProblem::unknown_key:
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("unrecognized guard option \"%s\"", key),
				errhint(
					"The options are token_column, resource, issuer, source, missing and mode.")));
		break;
	case core::OptionProblem::repeated_key:
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("guard option \"%s\" is given twice", key)));
		break;
	case core::OptionProblem::bad_value:
	case core::OptionProblem::none:
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg(
					"invalid value for guard option \"%s\": \"%s\"", key, string_of(result.value)),
				result.words[0].empty()
					? 0
					: errdetail("Valid values are \"%s\" and \"%s\".", string_of(result.words[0]),
						  string_of(result.words[1]))));
		break;
	}
	pg_unreachable();
}

void
raise_protocol(const Trigger *trigger, const char *what)
{
	ereport(ERROR,
		(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			errmsg("trigger \"%s\" must be fired %s", trigger->tgname, what)));
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
make_guard(FunctionCallInfo fcinfo, const TriggerData *data)
{
	MemoryContext memory = fcinfo->flinfo->fn_mcxt;
	core::GuardOptions options =
		read_guard_options(data->tg_trigger->tgargs, data->tg_trigger->tgnargs);
	auto *guard = static_cast<Guard *>(MemoryContextAllocZero(memory, sizeof(Guard)));

	if (!options.token_column.empty()) {
		guard->column = token_column_of(data->tg_relation, options);
		require_no_default_token(data->tg_relation, guard->column);
	}
	// The arguments belong to the relation, which stays open as long as the statement runs.
	if (!options.resource.empty())
		guard->resource = read_row_resource(data->tg_relation, options.resource, memory);
	guard->external = options.issuer == core::Issuer::external;
	guard->source = options.source;
	guard->missing = options.missing;
	guard->mode = options.mode;
	guard->statement = statement_of(fcinfo->flinfo);
	fcinfo->flinfo->fn_extra = guard;
	return guard;
}

} // namespace

const TriggerData *
trigger_data(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("function %s was not called by trigger manager", function)));
	return reinterpret_cast<const TriggerData *>(fcinfo->context);
}

Guard *
row_guard_of(FunctionCallInfo fcinfo, const TriggerData *data)
{
	if (fcinfo->flinfo->fn_extra != nullptr)
		return static_cast<Guard *>(fcinfo->flinfo->fn_extra);
	require_row_trigger(data);
	return make_guard(fcinfo, data);
}

Guard *
truncate_guard_of(FunctionCallInfo fcinfo, const TriggerData *data)
{
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		raise_protocol(data->tg_trigger, "BEFORE TRUNCATE");
	return make_guard(fcinfo, data);
}

core::GuardOptions
read_guard_options(const char *const *arguments, int count)
{
	core::GuardOptions options;

	for (int i = 0; i < count; i++) {
		core::OptionResult result = core::add_option(&options, arguments[i]);

		if (result.problem != core::OptionProblem::none)
			raise_bad_option(result);
	}
	if ((options.seen & (1u << core::issuer_key)) != 0 && options.resource.empty())
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("guard option \"issuer\" says something only with \"resource\"")));
	if (options.token_column.empty() && options.resource.empty())
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("a guard needs a token column, a resource, or both")));
	return options;
}

AttrNumber
token_column_of(Relation relation, const core::GuardOptions &options)
{
	char *column = string_of(options.token_column);
	AttrNumber number = get_attnum(RelationGetRelid(relation), column);

	if (number == InvalidAttrNumber)
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
				errmsg("column \"%s\" of relation \"%s\" does not exist", column,
					RelationGetRelationName(relation))));
	if (number < 0)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				errmsg("system column \"%s\" cannot hold a fencing token", column)));

	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(relation), number - 1);

	if (attribute->attgenerated != '\0')
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				errmsg("generated column \"%s\" cannot hold a fencing token", column),
				errtablecol(relation, number)));
	if (attribute->atttypid != INT8OID && attribute->atttypid != INT4OID &&
		attribute->atttypid != INT2OID)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("token column \"%s\" must be of type bigint, integer or smallint, not %s",
					column, format_type_be(attribute->atttypid)),
				errtablecol(relation, number)));
	if (attribute->atttypid != INT8OID && !options.resource.empty() &&
		options.issuer == core::Issuer::fencing)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("token column \"%s\" must be of type bigint", column),
				errdetail("Tokens issued here outgrow %s.", format_type_be(attribute->atttypid)),
				errtablecol(relation, number)));
	return number;
}

void
require_no_default_token(Relation relation, AttrNumber column)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(relation), column - 1);

	if (!attribute->atthasdef && attribute->attidentity == '\0')
		return;

	Node *value = build_column_default(relation, column);
	auto *constant = reinterpret_cast<Const *>(
		value == nullptr ? nullptr : eval_const_expressions(nullptr, value));

	// The type's size is that of the column; a zero of each is all zero bits.
	if (value == nullptr ||
		(IsA(constant, Const) && (constant->constisnull || constant->constvalue == Datum(0))))
		return;
	ereport(ERROR,
		(errcode(ERRCODE_INVALID_COLUMN_DEFINITION),
			errmsg("token column \"%s\" has a default other than NULL or 0",
				NameStr(attribute->attname)),
			errdetail("Every INSERT that names no token would carry it."),
			errtablecol(relation, column)));
}

} // namespace fencing
