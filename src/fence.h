// SPDX-License-Identifier: PostgreSQL
// fence.h: the fence of a resource: judged, raised, dropped, bound to.
#pragma once

#include "pg/prelude.h"

#include "claims.h"
#include "core/verdict.h"
#include "errors.h"
#include "fence_table.h"

namespace fencing {

// The running transaction grants or advances: its COMMIT waits for the disk even under
// synchronous_commit = off, unless fencing.durable_grants waives it. A lost grant would let an
// older token pass again (I3, I5).
void commit_durably();

// The fence that a statement meets: that of the table, or a greater token from elsewhere that the
// transaction itself has seen, and that is not in the table before it commits. `claim` may be null.
core::FenceState state_of(const std::optional<FenceRow> &row, const Claim *claim);

// A resource has one issuer within a transaction as well.
core::Verdict judge(
	core::FenceState state, const Claim *claim, bool external, std::int64_t presented);

// What to say of a verdict that is not `accepted`.
Refusal refusal_of(core::Verdict verdict, const text *resource, std::int64_t presented,
	core::FenceState state, const std::optional<FenceRow> &row, bool external);

// Writes the fence of a resource whose tokens come from elsewhere; under its lock.
Written raise_fence(const text *resource, const std::optional<FenceRow> &row, std::int64_t token);

} // namespace fencing
