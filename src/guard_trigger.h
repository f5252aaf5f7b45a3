// SPDX-License-Identifier: PostgreSQL
// guard_trigger.h: what a guard trigger says and on which column, read and checked; shared by the
// triggers themselves and by protect.
#pragma once

#include "pg/prelude.h"

#include "core/guard_options.h"
#include "row_resource.h"
#include "statement.h"

extern "C" {
#include "commands/trigger.h"
#include "utils/rel.h"
}

namespace fencing {

// A guard trigger, made ready once for each statement.
struct Guard {
	Statement *statement;
	AttrNumber column;           // of the token; 0: none
	const RowResource *resource; // null: none
	bool external;
	core::Source source;
	core::Missing missing;
	core::Mode mode;
	struct Claim *last_claim; // of the row before, or null
};
static_assert(survives_longjmp<Guard>);

// What the trigger function was called for; 39P01 when not by a trigger.
const TriggerData *trigger_data(FunctionCallInfo fcinfo, const char *function);

// The row guard that the function was called for. Raises 39P01 for a trigger that would leave gaps,
// and what the functions below raise.
Guard *row_guard_of(FunctionCallInfo fcinfo, const TriggerData *data);

// The same for TRUNCATE.
Guard *truncate_guard_of(FunctionCallInfo fcinfo, const TriggerData *data);

// Reads the arguments of a trigger, which must outlive the options. Raises 22023 for a wrong key or
// value.
core::GuardOptions read_guard_options(const char *const *arguments, int count);

// The token column: 42703 when there is none, 42P10 for a system or generated column, 42804 for a
// type other than bigint, integer or smallint. Tokens issued here outgrow the small types at the
// first epoch: 42804 when `resource` says that they are.
AttrNumber token_column_of(Relation relation, const core::GuardOptions &options);

// A column DEFAULT would be carried as a token by every INSERT that names none: 42611 unless it is
// NULL or 0.
void require_no_default_token(Relation relation, AttrNumber column);

} // namespace fencing
