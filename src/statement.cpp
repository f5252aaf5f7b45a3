// SPDX-License-Identifier: PostgreSQL
// statement.cpp: what the guards of one running statement share.

#include "statement.h"

extern "C" {
#include "utils/memutils.h"
}

namespace fencing {

namespace {

Statement *innermost = nullptr;
std::uint64_t last_serial = 0;

void
unlink(void *ended)
{
	for (Statement **link = &innermost; *link != nullptr; link = &(*link)->outer) {
		if (*link != ended)
			continue;
		*link = (*link)->outer;
		return;
	}
}

} // namespace

Statement *
statement_of(FmgrInfo *function)
{
	for (Statement *running = innermost; running != nullptr; running = running->outer) {
		if (running->memory == function->fn_mcxt)
			return running;
	}

	auto *statement =
		static_cast<Statement *>(MemoryContextAllocZero(function->fn_mcxt, sizeof(Statement)));

	statement->serial = ++last_serial;
	statement->memory = function->fn_mcxt;
	statement->at_end.func = unlink;
	statement->at_end.arg = statement;
	MemoryContextRegisterResetCallback(function->fn_mcxt, &statement->at_end);
	statement->outer = innermost;
	innermost = statement;
	return statement;
}

void
remember_admitted(Statement *statement, Oid relation, ItemPointer row, const Admitted &admitted)
{
	statement->relation = relation;
	statement->row = *row;
	statement->admitted = admitted;
	statement->may_be_deleted = true;
	statement->may_be_inserted = false;
}

bool
is_delete_leg(Statement *statement, Oid relation, ItemPointer row)
{
	bool leg = statement->may_be_deleted && statement->relation == relation &&
		ItemPointerEquals(&statement->row, row);

	statement->may_be_deleted = false;
	statement->may_be_inserted = leg;
	return leg;
}

bool
is_insert_leg(Statement *statement)
{
	bool leg = statement->may_be_inserted;

	statement->may_be_deleted = false;
	statement->may_be_inserted = false;
	return leg;
}

} // namespace fencing
