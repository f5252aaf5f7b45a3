// SPDX-License-Identifier: PostgreSQL
// seal.h: the check of everything that a transaction has claimed, under lock, when it commits.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// Called once, when the library loads.
void register_seal();

// Callbacks at the end of a transaction run last-registered first, and postgres_fdw commits its remote
// side in one that it registers at the first remote access of a session. The seal has to come before:
// while something is claimed, its callback is made the newest at the end of each statement and of
// each bind (which can be an expression of PL/pgSQL, without a statement's end). Never once the
// commit has begun: the server is walking along its list then.
void keep_seal_first();

// What every function that changes a lease or a fence begins with; `function` names it. Raises 25006
// when the transaction is read-only or the server a standby. PREPARE TRANSACTION is refused from then
// on (0A000): a prepared grant would hold everybody up until somebody finishes it, and nobody holds it.
void begin_change(const char *function);

} // namespace fencing
