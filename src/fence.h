// SPDX-License-Identifier: PostgreSQL
// fence.h: the fence of a resource, and what a transaction that changes it owes at its end.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// Called once, when the library loads.
void register_transaction_end();

// The running transaction changes a lease or a fence: PREPARE TRANSACTION is refused (0A000), since
// a prepared grant would hold everybody up until somebody finishes it, and nobody holds it.
void refuse_prepare();

// The running transaction grants or advances: its COMMIT waits for the disk even under
// synchronous_commit = off, unless fencing.durable_grants waives it. A lost grant would let an
// older token pass again (I3, I5).
void commit_durably();

} // namespace fencing
