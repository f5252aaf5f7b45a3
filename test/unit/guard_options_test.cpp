// SPDX-License-Identifier: PostgreSQL
// guard_options_test.cpp: the arguments of a guard trigger, without a server.

#include "core/guard_options.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

namespace {

using namespace fencing::core;

constexpr OptionProblem
problem_of(std::string_view argument)
{
	GuardOptions options;

	return add_option(&options, argument).problem;
}

static_assert(problem_of("fence_token") == OptionProblem::none);
static_assert(problem_of("token_column=fence_token") == OptionProblem::none);
static_assert(problem_of("source=transaction") == OptionProblem::none);
static_assert(problem_of("issuer=external") == OptionProblem::none);
static_assert(problem_of("source=Transaction") == OptionProblem::bad_value);
static_assert(problem_of("mode=off") == OptionProblem::bad_value);
static_assert(problem_of("missing=") == OptionProblem::bad_value);
static_assert(problem_of("resource=") == OptionProblem::bad_value);
static_assert(problem_of("") == OptionProblem::bad_value);
static_assert(problem_of("=x") == OptionProblem::unknown_key);
static_assert(problem_of("mode =enforce") == OptionProblem::unknown_key);

TEST(GuardOptions, DefaultsAreTheStrictOnes)
{
	GuardOptions options;

	EXPECT_EQ(options.source, Source::any);
	EXPECT_EQ(options.missing, Missing::reject);
	EXPECT_EQ(options.mode, Mode::enforce);
	EXPECT_EQ(options.issuer, Issuer::fencing);
}

TEST(GuardOptions, ReadsEveryKey)
{
	GuardOptions options;

	for (std::string_view argument : {"fence_token", "resource=job-{job_id}", "issuer=external",
			 "source=transaction", "missing=allow", "mode=observe"})
		ASSERT_EQ(add_option(&options, argument).problem, OptionProblem::none) << argument;
	EXPECT_EQ(options.token_column, "fence_token");
	EXPECT_EQ(options.resource, "job-{job_id}");
	EXPECT_EQ(options.issuer, Issuer::external);
	EXPECT_EQ(options.source, Source::transaction);
	EXPECT_EQ(options.missing, Missing::allow);
	EXPECT_EQ(options.mode, Mode::observe);
}

// A column may have '=' in its name; so may a resource.
TEST(GuardOptions, SplitsAtTheFirstEqualsSign)
{
	GuardOptions options;

	ASSERT_EQ(add_option(&options, "token_column=a=b").problem, OptionProblem::none);
	ASSERT_EQ(add_option(&options, "resource==").problem, OptionProblem::none);
	EXPECT_EQ(options.token_column, "a=b");
	EXPECT_EQ(options.resource, "=");
}

TEST(GuardOptions, RefusesAKeyGivenTwice)
{
	GuardOptions options;

	ASSERT_EQ(add_option(&options, "fence_token").problem, OptionProblem::none);
	OptionResult again = add_option(&options, "token_column=fence_token");
	EXPECT_EQ(again.problem, OptionProblem::repeated_key);
	EXPECT_EQ(again.key, "token_column");
}

TEST(GuardOptions, NamesTheKeyAndTheValueThatAreWrong)
{
	GuardOptions options;
	OptionResult unknown = add_option(&options, "tokn=x=y");

	EXPECT_EQ(unknown.problem, OptionProblem::unknown_key);
	EXPECT_EQ(unknown.key, "tokn");
	EXPECT_EQ(unknown.value, "x=y");
}

} // namespace
