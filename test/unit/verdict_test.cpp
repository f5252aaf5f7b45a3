// SPDX-License-Identifier: PostgreSQL
// verdict_test.cpp: whether a row accepts a token (I4), without a server.

#include "core/verdict.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace {

using fencing::core::judge_row;
using fencing::core::Verdict;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

// The cases that the README promises, checked when this file is compiled.
static_assert(judge_row(34, 33) == Verdict::stale);
static_assert(judge_row(34, 34) == Verdict::accepted);
static_assert(judge_row(34, 35) == Verdict::accepted);
static_assert(judge_row(0, 1) == Verdict::accepted);
static_assert(judge_row(34, 0) == Verdict::missing);
static_assert(judge_row(0, 0) == Verdict::missing);
static_assert(judge_row(34, -1) == Verdict::invalid);
static_assert(judge_row(most, most) == Verdict::accepted);
static_assert(judge_row(most, most - 1) == Verdict::stale);
static_assert(judge_row(0, least) == Verdict::invalid);

// I4 for every pair of a range that covers each side of each border.
TEST(Verdict, NeverLowersARow)
{
	for (std::int64_t in_row = -3; in_row <= 3; in_row++) {
		for (std::int64_t presented = -3; presented <= 3; presented++) {
			bool accepted = judge_row(in_row, presented) == Verdict::accepted;

			EXPECT_EQ(accepted, presented >= 1 && presented >= in_row)
				<< "row " << in_row << ", presented " << presented;
		}
	}
}

// A row written before the table was protected may hold anything; below 1 it was never fenced.
TEST(Verdict, TreatsARowBelowOneAsNeverFenced)
{
	EXPECT_EQ(judge_row(-7, 1), Verdict::accepted);
	EXPECT_EQ(judge_row(least, 1), Verdict::accepted);
}

} // namespace
