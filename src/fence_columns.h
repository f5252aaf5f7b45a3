// SPDX-License-Identifier: PostgreSQL
// fence_columns.h: the table fencing.fence itself, for the two files that read and write its rows.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "storage/lockdefs.h"
#include "utils/rel.h"
}

namespace fencing {

// The columns of fencing.fence, in the order of the install script.
enum Column { resource, token, external, holder, ttl, acquired_at, expires_at, released_at };
constexpr int columns = 8;

// Raises 42P01 when the extension is not installed.
Relation open_fences(LOCKMODE mode);

} // namespace fencing
