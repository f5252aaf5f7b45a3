// SPDX-License-Identifier: PostgreSQL
// protect.cpp: protect and unprotect: the triggers of a table, made and dropped.
//
// The triggers are the only record of what is protected, so that dump and restore carry it. What
// is there already is compared first, under ACCESS SHARE: called in every migration, protect locks
// nobody out when nothing changes.

#include "pg/prelude.h"

#include "arguments.h"
#include "guard_trigger.h"
#include "pg/catalog.h"
#include "pg/spi.h"
#include "pg/triggers.h"

extern "C" {
#include "access/relation.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
}

namespace fencing {

namespace {

struct GuardKind {
	const char *name;
	const char *function;
	const char *events;
	const char *each;
	std::int16_t type;
};

constexpr GuardKind row_guard = {"zz_fencing_guard", "guard", "INSERT OR UPDATE OR DELETE", "ROW",
	TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE |
		TRIGGER_TYPE_DELETE};
constexpr GuardKind truncate_guard = {"zz_fencing_guard_truncate", "guard_truncate", "TRUNCATE",
	"STATEMENT", TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_TRUNCATE};

constexpr int most_arguments = 6;

struct Arguments {
	const char *words[most_arguments];
	int count;
};

// A table of the caller's own, locked so that it stays as it is until the transaction ends, but not
// kept open: ALTER TABLE refuses a relation that its own session has open.
struct Table {
	Oid oid;
	char kind;
};

Table
own_table(FunctionCallInfo fcinfo)
{
	require_argument(fcinfo, 0, "relation");

	Relation relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);

	if (relation == nullptr)
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("relation with OID %u does not exist", PG_GETARG_OID(0))));

	Table table = {RelationGetRelid(relation), relation->rd_rel->relkind};

	if (!compat::owns_relation(table.oid, GetUserId()))
		aclcheck_error(
			ACLCHECK_NOT_OWNER, get_relkind_objtype(table.kind), RelationGetRelationName(relation));
	if (table.kind != RELKIND_RELATION && table.kind != RELKIND_PARTITIONED_TABLE &&
		table.kind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("\"%s\" is not a table", RelationGetRelationName(relation))));
	relation_close(relation, NoLock);
	return table;
}

char *
qualified_name(Oid relation)
{
	return quote_qualified_identifier(
		get_namespace_name(get_rel_namespace(relation)), get_rel_name(relation));
}

void
add_word(Arguments *arguments, const char *key, const char *value)
{
	arguments->words[arguments->count++] = psprintf("%s=%s", key, value);
}

void
add_word_unless_default(
	Arguments *arguments, FunctionCallInfo fcinfo, int number, const char *key, const char *usual)
{
	require_argument(fcinfo, number, key);

	const char *value = text_to_cstring(PG_GETARG_TEXT_PP(number));

	if (strcmp(value, usual) != 0)
		add_word(arguments, key, value);
}

// What the triggers will be given; only what differs from the defaults.
Arguments
trigger_arguments(FunctionCallInfo fcinfo)
{
	Arguments arguments = {};

	if (!PG_ARGISNULL(1)) {
		const char *column = NameStr(*PG_GETARG_NAME(1));

		if (strchr(column, '=') == nullptr)
			arguments.words[arguments.count++] = pstrdup(column);
		else
			add_word(&arguments, "token_column", column);
	}
	if (!PG_ARGISNULL(2))
		add_word(&arguments, "resource", text_to_cstring(PG_GETARG_TEXT_PP(2)));
	add_word_unless_default(&arguments, fcinfo, 3, "issuer", "fencing");
	add_word_unless_default(&arguments, fcinfo, 4, "source", "any");
	add_word_unless_default(&arguments, fcinfo, 5, "missing", "reject");
	add_word_unless_default(&arguments, fcinfo, 6, "mode", "enforce");
	return arguments;
}

bool
same_arguments(const bytea *stored, const Arguments &arguments)
{
	StringInfoData expected;

	initStringInfo(&expected);
	for (int i = 0; i < arguments.count; i++)
		appendBinaryStringInfo(
			&expected, arguments.words[i], static_cast<int>(strlen(arguments.words[i])) + 1);
	return static_cast<int>(VARSIZE_ANY_EXHDR(stored)) == expected.len &&
		memcmp(VARDATA_ANY(stored), expected.data, expected.len) == 0;
}

bool
fires(char enabled)
{
	return enabled == TRIGGER_FIRES_ON_ORIGIN || enabled == TRIGGER_FIRES_ALWAYS;
}

bool
is_ours(const std::optional<StoredTrigger> &trigger, const GuardKind &kind)
{
	return trigger && trigger->function == own_function(kind.function);
}

void
enable(Oid relation, const GuardKind &kind, const char *how)
{
	execute_ddl(
		psprintf("ALTER TABLE %s ENABLE %sTRIGGER %s", qualified_name(relation), how, kind.name));
}

void
create_guard(Oid relation, const GuardKind &kind, const Arguments &arguments)
{
	StringInfoData statement;

	if (!compat::may_execute(own_function(kind.function), GetUserId()))
		ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("permission denied for function fencing.%s", kind.function),
				errdetail("A trigger can be made only by somebody who may execute its function."),
				errhint("The owner of the database can GRANT EXECUTE ON FUNCTION fencing.protect, "
						"fencing.guard, fencing.guard_truncate.")));
	initStringInfo(&statement);
	appendStringInfo(&statement,
		"CREATE OR REPLACE TRIGGER %s BEFORE %s ON %s FOR EACH %s EXECUTE FUNCTION fencing.%s(",
		kind.name, kind.events, qualified_name(relation), kind.each, kind.function);
	for (int i = 0; i < arguments.count; i++)
		appendStringInfo(
			&statement, "%s%s", i > 0 ? ", " : "", quote_literal_cstr(arguments.words[i]));
	appendStringInfoChar(&statement, ')');
	execute_ddl(statement.data);
}

// On a partitioned table CREATE OR REPLACE replaces what stands on the partitions, too: so this
// comes before anything is made.
void
require_no_other_trigger(Oid relation, const GuardKind &kind)
{
	std::optional<StoredTrigger> stored = find_trigger(relation, kind.name);

	if (stored && !is_ours(stored, kind))
		ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
				errmsg("trigger \"%s\" for relation \"%s\" is not a guard", kind.name,
					get_rel_name(relation)),
				errhint("Rename it: fencing needs that name, which sorts last.")));
}

void
ensure_guard(Oid relation, const GuardKind &kind, const Arguments &arguments)
{
	std::optional<StoredTrigger> stored = find_trigger(relation, kind.name);
	bool same = stored && stored->type == kind.type && stored->plain &&
		same_arguments(stored->arguments, arguments);

	if (same && fires(stored->enabled))
		return;
	if (!same && stored && stored->is_clone)
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("partition \"%s\" is protected through its parent", get_rel_name(relation)),
				errhint("Call fencing.protect() for the parent.")));
	if (same) {
		enable(relation, kind, "");
		return;
	}
	create_guard(relation, kind, arguments);
	// CREATE OR REPLACE makes it an ordinary one.
	if (stored && stored->enabled == TRIGGER_FIRES_ALWAYS)
		enable(relation, kind, "ALWAYS ");
}

void
check_options(Oid relation, const core::GuardOptions &options)
{
	Relation opened = relation_open(relation, AccessShareLock);

	if (!options.token_column.empty())
		require_no_default_token(opened, token_column_of(opened, options));
	if (!options.resource.empty())
		(void)read_row_resource(opened, options.resource, CurrentMemoryContext);
	relation_close(opened, NoLock);
}

void
warn_of_children(const Table &table)
{
	if (table.kind == RELKIND_PARTITIONED_TABLE || !has_subclass(table.oid))
		return;

	List *children = find_inheritance_children(table.oid, NoLock);
	StringInfoData names;
	ListCell *cell;

	initStringInfo(&names);
	foreach (cell, children)
		appendStringInfo(
			&names, "%s%s", names.len > 0 ? ", " : "", qualified_name(lfirst_oid(cell)));
	if (names.len > 0)
		ereport(WARNING,
			(errmsg(
				 "rows in inheritance children of \"%s\" are not guarded", get_rel_name(table.oid)),
				errdetail("Children: %s.", names.data),
				errhint("Call fencing.protect() for each of them.")));
}

void
ensure_truncate_guard(Oid relation, const Arguments &arguments)
{
	if (get_rel_relkind(relation) == RELKIND_FOREIGN_TABLE && !compat::foreign_truncate_triggers) {
		ereport(WARNING,
			(errmsg("TRUNCATE of foreign table \"%s\" is not guarded", get_rel_name(relation)),
				errdetail("This server has no TRUNCATE triggers on foreign tables.")));
		return;
	}
	ensure_guard(relation, truncate_guard, arguments);
}

// The table itself first, then its partitions, at every depth.
List *
table_and_partitions(const Table &table)
{
	if (table.kind != RELKIND_PARTITIONED_TABLE)
		return list_make1_oid(table.oid);
	return find_all_inheritors(table.oid, AccessShareLock, nullptr);
}

void
protect(const Table &table, const Arguments &arguments)
{
	core::GuardOptions options = read_guard_options(arguments.words, arguments.count);
	List *members = table_and_partitions(table);
	ListCell *cell;

	foreach (cell, members) {
		check_options(lfirst_oid(cell), options);
		require_no_other_trigger(lfirst_oid(cell), row_guard);
		require_no_other_trigger(lfirst_oid(cell), truncate_guard);
	}
	ensure_guard(table.oid, row_guard, arguments);
	foreach (cell, members) {
		Oid member = lfirst_oid(cell);
		std::optional<StoredTrigger> clone = find_trigger(member, row_guard.name);

		// The server makes the clones; their owner can switch one off alone.
		if (clone && clone->is_clone && !fires(clone->enabled))
			enable(member, row_guard, "");
		ensure_truncate_guard(member, arguments);
	}
	warn_of_children(table);
}

void
drop_guard(Oid relation, const GuardKind &kind)
{
	std::optional<StoredTrigger> stored = find_trigger(relation, kind.name);

	if (is_ours(stored, kind))
		execute_ddl(psprintf("DROP TRIGGER %s ON %s", kind.name, qualified_name(relation)));
}

void
unprotect(const Table &table)
{
	std::optional<StoredTrigger> stored = find_trigger(table.oid, row_guard.name);
	ListCell *cell;

	if (is_ours(stored, row_guard) && stored->is_clone)
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("partition \"%s\" is protected through its parent", get_rel_name(table.oid)),
				errhint("Call fencing.unprotect() for the parent.")));
	drop_guard(table.oid, row_guard);
	foreach (cell, table_and_partitions(table))
		drop_guard(lfirst_oid(cell), truncate_guard);
}

} // namespace

} // namespace fencing

FENCING_FUNCTION(fencing_protect)
{
	fencing::Arguments arguments = fencing::trigger_arguments(fcinfo);

	fencing::protect(fencing::own_table(fcinfo), arguments);
	PG_RETURN_VOID();
}

FENCING_FUNCTION(fencing_unprotect)
{
	fencing::unprotect(fencing::own_table(fcinfo));
	PG_RETURN_VOID();
}
