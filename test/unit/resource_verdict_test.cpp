// SPDX-License-Identifier: PostgreSQL
// resource_verdict_test.cpp: whether the fence of a resource accepts a token (I5), without a server.

#include "core/verdict.h"

#include <gtest/gtest.h>

namespace {

using fencing::core::FenceState;
using fencing::core::judge_resource;
using fencing::core::Verdict;

constexpr FenceState unknown = {0, false, 0};
constexpr FenceState issued_here = {34, false, 0};
constexpr FenceState from_elsewhere = {34, true, 0};

// Issued here: the current token and no other.
static_assert(judge_resource(issued_here, false, 33) == Verdict::stale);
static_assert(judge_resource(issued_here, false, 34) == Verdict::accepted);
static_assert(judge_resource(issued_here, false, 35) == Verdict::unissued);
static_assert(judge_resource(unknown, false, 1) == Verdict::unissued);

// From elsewhere: the fence or more.
static_assert(judge_resource(from_elsewhere, true, 33) == Verdict::stale);
static_assert(judge_resource(from_elsewhere, true, 34) == Verdict::accepted);
static_assert(judge_resource(from_elsewhere, true, 35) == Verdict::accepted);
static_assert(judge_resource(unknown, true, 1) == Verdict::accepted);

// A resource has one issuer, whatever the token.
static_assert(judge_resource(issued_here, true, 34) == Verdict::other_issuer);
static_assert(judge_resource(from_elsewhere, false, 34) == Verdict::other_issuer);

static_assert(judge_resource(issued_here, false, 0) == Verdict::missing);
static_assert(judge_resource(issued_here, false, -1) == Verdict::invalid);

// I5 over every small case: nothing below the fence is ever accepted.
TEST(ResourceVerdict, NeverAcceptsBelowTheFence)
{
	for (long fence = 0; fence <= 4; fence++) {
		for (long presented = -1; presented <= 5; presented++) {
			for (bool external : {false, true}) {
				for (bool known_external : {false, true}) {
					Verdict verdict =
						judge_resource({fence, known_external, 0}, external, presented);

					if (verdict == Verdict::accepted) {
						EXPECT_GE(presented, 1);
						EXPECT_GE(presented, fence);
						EXPECT_TRUE(external || presented == fence);
						EXPECT_TRUE(fence == 0 || external == known_external);
					}
				}
			}
		}
	}
}

} // namespace
