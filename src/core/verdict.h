// SPDX-License-Identifier: PostgreSQL
// verdict.h: whether a row, or the fence of a resource, accepts a token. The one place where
// tokens are compared (I4, I5).
#pragma once

#include <cstdint>

#include "core/epoch.h"

namespace fencing::core {

// In a row, as in a statement, 0 stands for "none"; NULL is turned into it before.
constexpr std::int64_t no_token = 0;

enum class Verdict { accepted, stale, missing, unissued, other_issuer, invalid };

constexpr Verdict
judge_row(std::int64_t in_row, std::int64_t presented) noexcept
{
	if (presented < no_token)
		return Verdict::invalid;
	if (presented == no_token)
		return Verdict::missing;
	// Equal is the same holder writing again. Expiry plays no part: no clock decides (I10).
	return presented < in_row ? Verdict::stale : Verdict::accepted;
}

// What is known of a resource; `fence` is no_token when nothing is.
struct FenceState {
	std::int64_t fence;
	bool external;
	std::int64_t epoch; // that the database is in
};

// Tokens from elsewhere know no epoch.
constexpr bool
is_of_earlier_epoch(FenceState state, bool external, std::int64_t presented) noexcept
{
	return !external && epoch_of(presented) < state.epoch;
}

// On a resource issued here exactly the current token counts: a greater one was never granted. On
// one advanced from elsewhere, and on one that nobody knows yet, a greater one is news.
constexpr Verdict
judge_resource(FenceState state, bool external, std::int64_t presented) noexcept
{
	if (presented < no_token)
		return Verdict::invalid;
	if (presented == no_token)
		return Verdict::missing;
	if (state.fence != no_token && state.external != external)
		return Verdict::other_issuer;
	// Before anything else that is known: the grant itself may have been lost.
	if (is_of_earlier_epoch(state, external, presented))
		return Verdict::stale;
	if (state.fence == no_token)
		return external ? Verdict::accepted : Verdict::unissued;
	if (presented < state.fence)
		return Verdict::stale;
	return presented > state.fence && !external ? Verdict::unissued : Verdict::accepted;
}

} // namespace fencing::core
