// SPDX-License-Identifier: PostgreSQL
// verdict.h: whether a row accepts a token. The one place where tokens are compared for a row (I4).
#pragma once

#include <cstdint>

namespace fencing::core {

// In a row, as in a statement, 0 stands for "none"; NULL is turned into it before.
constexpr std::int64_t no_token = 0;

enum class Verdict { accepted, stale, missing, invalid };

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

} // namespace fencing::core
