// SPDX-License-Identifier: PostgreSQL
// guard_trigger.cpp: what a guard trigger says and on which column, read and checked.

#include "guard_trigger.h"

#include "errors.h"

extern "C" {
#include "access/sysattr.h"
#include "catalog/pg_attribute.h"
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
				errhint("The options are token_column, resource, issuer, source, missing and mode.")));
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
				errmsg("invalid value for guard option \"%s\": \"%s\"", key,
					string_of(result.value))));
		break;
	}
	pg_unreachable();
}

} // namespace

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
	if (!options.resource.empty())
		raise_not_supported("guard option \"resource\"");
	if (options.token_column.empty())
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a guard needs a token column")));
	return options;
}

AttrNumber
token_column_of(Relation relation, std::string_view name)
{
	char *column = string_of(name);
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
