// SPDX-License-Identifier: PostgreSQL
// row_resource.cpp: the resource that a row belongs to, by the template of its guard.

#include "row_resource.h"

extern "C" {
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
}

namespace fencing {

namespace {

const char *
fault_of(core::TemplateProblem problem)
{
	switch (problem) {
	case core::TemplateProblem::open_brace:
		return "A \"{\" has no \"}\".";
	case core::TemplateProblem::closing_brace:
		return "A \"}\" has no \"{\".";
	case core::TemplateProblem::no_column:
		return "Between \"{\" and \"}\" stands no column name.";
	case core::TemplateProblem::too_long:
		return "It has too many parts.";
	case core::TemplateProblem::none:
		break;
	}
	return nullptr;
}

void
raise_bad_template(std::string_view source, const char *fault, const char *hint)
{
	ereport(ERROR,
		(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("invalid resource template \"%s\"", pnstrdup(source.data(), source.size())),
			errdetail("%s", fault), hint == nullptr ? 0 : errhint("%s", hint)));
}

bool
prints_the_same_everywhere(Oid type)
{
	switch (type) {
	case INT2OID:
	case INT4OID:
	case INT8OID:
	case TEXTOID:
	case VARCHAROID:
	case UUIDOID:
	case BOOLOID:
		return true;
	default:
		return type_is_enum(type);
	}
}

RowResource::Column
column_of(Relation relation, std::string_view name)
{
	char *column = pnstrdup(name.data(), name.size());
	AttrNumber number = get_attnum(RelationGetRelid(relation), column);

	if (number == InvalidAttrNumber)
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
				errmsg("column \"%s\" of relation \"%s\" does not exist", column,
					RelationGetRelationName(relation)),
				errdetail("The resource template names it.")));
	if (number < 0 || TupleDescAttr(RelationGetDescr(relation), number - 1)->attgenerated != '\0')
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				errmsg("column \"%s\" cannot be part of a resource template", column),
				errdetail("System and generated columns have no value yet when a guard fires.")));

	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(relation), number - 1);
	Oid type = getBaseType(attribute->atttypid);

	if (!prints_the_same_everywhere(type))
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("column \"%s\" of type %s cannot be part of a resource template", column,
					format_type_be(attribute->atttypid)),
				errhint(
					"Use smallint, integer, bigint, text, varchar, uuid, boolean, an enum, or a "
					"domain over one of these.")));
	return {number, type};
}

void
append(ResourceName *name, std::string_view part)
{
	if (name->length + part.size() > longest_resource)
		raise_bad_resource_name("The resource template makes a longer one of this row.");
	memcpy(name->bytes + name->length, part.data(), part.size());
	name->length += part.size();
}

void
append_number(ResourceName *name, std::int64_t number)
{
	char digits[MAXINT8LEN + 1];
	int length = pg_lltoa(number, digits);

	append(name, {digits, static_cast<std::size_t>(length)});
}

void
append_value(ResourceName *name, Oid type, Datum value)
{
	switch (type) {
	case INT2OID:
		append_number(name, DatumGetInt16(value));
		return;
	case INT4OID:
		append_number(name, DatumGetInt32(value));
		return;
	case INT8OID:
		append_number(name, DatumGetInt64(value));
		return;
	case TEXTOID:
	case VARCHAROID:
		append(name, view_of(DatumGetTextPP(value)));
		return;
	case BOOLOID:
		// As the cast to text has it, and so || and concat().
		append(name, DatumGetBool(value) ? "true" : "false");
		return;
	case UUIDOID:
		append(name, DatumGetCString(DirectFunctionCall1(uuid_out, value)));
		return;
	default:
		append(name, DatumGetCString(DirectFunctionCall1(enum_out, value)));
	}
}

void
require_a_name(const ResourceName *name)
{
	if (name->length == 0)
		raise_bad_resource_name("The resource template makes an empty one of this row.");
}

} // namespace

RowResource *
read_row_resource(Relation relation, std::string_view source, MemoryContext memory)
{
	auto *resource =
		static_cast<RowResource *>(MemoryContextAllocZero(memory, sizeof(RowResource)));
	core::TemplateProblem problem = core::parse_template(source, &resource->parts);
	std::size_t literal = 0;

	if (problem != core::TemplateProblem::none)
		raise_bad_template(source, fault_of(problem),
			problem == core::TemplateProblem::too_long ? nullptr
													   : "Write {{ and }} for literal braces.");
	for (std::size_t i = 0; i < resource->parts.count; i++) {
		const core::TemplatePiece &piece = resource->parts.pieces[i];

		if (piece.is_column)
			resource->columns[i] = column_of(relation, piece.text);
		else
			literal += piece.text.size();
	}
	if (literal > longest_resource)
		raise_bad_template(source, "Its literal text alone is longer than 512 bytes.", nullptr);
	return resource;
}

void
resource_of_row(const RowResource *resource, TupleTableSlot *row, ResourceName *name)
{
	name->length = 0;
	for (std::size_t i = 0; i < resource->parts.count; i++) {
		const core::TemplatePiece &piece = resource->parts.pieces[i];

		if (!piece.is_column) {
			append(name, piece.text);
			continue;
		}

		bool is_null;
		Datum value = slot_getattr(row, resource->columns[i].number, &is_null);

		if (is_null)
			ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					errmsg("column \"%s\" of a resource template must not be NULL",
						pnstrdup(piece.text.data(), piece.text.size()))));
		append_value(name, resource->columns[i].type, value);
	}
	require_a_name(name);
}

void
resource_without_row(const RowResource *resource, ResourceName *name)
{
	name->length = 0;
	for (std::size_t i = 0; i < resource->parts.count; i++)
		append(name, resource->parts.pieces[i].text);
	require_a_name(name);
}

} // namespace fencing
