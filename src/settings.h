// SPDX-License-Identifier: PostgreSQL
// settings.h: every setting of the extension.
#pragma once

#include "pg/prelude.h"

namespace fencing::settings {

enum class Enforcement : int { off, observe, enforce };

// Called once, when the library loads.
void define();

// The token of `fencing.token`, if the running transaction has set it. A value set by an earlier
// transaction, in a configuration file, by a role or at connection never counts: behind a pooler
// it would be another client's.
std::optional<std::int64_t> transaction_token();

// Whether `fencing.token` holds a token that does not count in this transaction: for a hint.
bool has_left_over_token();

Enforcement enforcement();
bool durable_grants();
int seal_timeout_ms();
bool notify();

} // namespace fencing::settings
