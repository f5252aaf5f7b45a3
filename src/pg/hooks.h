// SPDX-License-Identifier: PostgreSQL
// hooks.h: the end of a statement.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// Has `callback` called after each statement, also a nested one: once the executor is done with it,
// or a utility command. Not after an error. Called once, when the library loads.
void call_at_statement_end(void (*callback)());

} // namespace fencing
