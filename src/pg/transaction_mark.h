// SPDX-License-Identifier: PostgreSQL
// transaction_mark.h: a counter of what the running transaction did, undone with its savepoints.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// Adds one to `counter` until the (sub)transaction that runs now is rolled back, or the top
// transaction ends. Needs no callbacks at the end of transactions: the memory that a savepoint's
// ROLLBACK frees takes the count back.
void count_until_undone(int *counter);

} // namespace fencing
