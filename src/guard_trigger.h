// SPDX-License-Identifier: PostgreSQL
// guard_trigger.h: what a guard trigger says and on which column, read and checked; shared by the
// triggers themselves and by protect.
#pragma once

#include "pg/prelude.h"

#include "core/guard_options.h"

extern "C" {
#include "utils/rel.h"
#include "utils/reltrigger.h"
}

namespace fencing {

// Reads the arguments of a trigger, which must outlive the options. Raises 22023 for a wrong key or
// value, 0A000 for what is not supported yet.
core::GuardOptions read_guard_options(const char *const *arguments, int count);

// The token column: 42703 when there is none, 42P10 for a system or generated column, 42804 for a
// type other than bigint, integer or smallint.
AttrNumber token_column_of(Relation relation, std::string_view name);

// A column DEFAULT would be carried as a token by every INSERT that names none: 42611 unless it is
// NULL or 0.
void require_no_default_token(Relation relation, AttrNumber column);

} // namespace fencing
