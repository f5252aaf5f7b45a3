// SPDX-License-Identifier: PostgreSQL
// hooks.cpp: the end of a statement.

#include "pg/hooks.h"

extern "C" {
#include "executor/executor.h"
#include "tcop/utility.h"
}

namespace fencing {

namespace {

void (*at_end)() = nullptr;
ExecutorEnd_hook_type next_executor_end = nullptr;
ProcessUtility_hook_type next_utility = nullptr;

extern "C" void
executor_end(QueryDesc *query)
{
	if (next_executor_end != nullptr)
		next_executor_end(query);
	else
		standard_ExecutorEnd(query);
	at_end();
}

extern "C" void
process_utility(PlannedStmt *statement, const char *text, bool read_only_tree,
	ProcessUtilityContext context, ParamListInfo parameters, QueryEnvironment *environment,
	DestReceiver *receiver, QueryCompletion *completion)
{
	ProcessUtility_hook_type next =
		next_utility != nullptr ? next_utility : standard_ProcessUtility;

	next(statement, text, read_only_tree, context, parameters, environment, receiver, completion);
	at_end();
}

} // namespace

void
call_at_statement_end(void (*callback)())
{
	at_end = callback;
	next_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

} // namespace fencing
