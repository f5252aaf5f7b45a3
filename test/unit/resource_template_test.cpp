// SPDX-License-Identifier: PostgreSQL
// resource_template_test.cpp: the resource template of a guard, without a server.

#include "core/resource_template.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace {

using namespace fencing::core;

constexpr TemplateProblem
problem_of(std::string_view source)
{
	ResourceTemplate parsed = {};

	return parse_template(source, &parsed);
}

static_assert(problem_of("job-{job_id}") == TemplateProblem::none);
static_assert(problem_of("constant") == TemplateProblem::none);
static_assert(problem_of("{a}{b}") == TemplateProblem::none);
static_assert(problem_of("{{}}") == TemplateProblem::none);
static_assert(problem_of("job-{job_id") == TemplateProblem::open_brace);
static_assert(problem_of("job-{") == TemplateProblem::open_brace);
static_assert(problem_of("{a{b}") == TemplateProblem::open_brace);
static_assert(problem_of("job-}") == TemplateProblem::closing_brace);
static_assert(problem_of("{a}}") == TemplateProblem::closing_brace);
static_assert(problem_of("job-{}") == TemplateProblem::no_column);

// What the template makes of a row whose columns hold their own names in capitals.
std::string
expand(std::string_view source)
{
	ResourceTemplate parsed = {};
	std::string result;

	EXPECT_EQ(parse_template(source, &parsed), TemplateProblem::none) << source;
	for (std::size_t i = 0; i < parsed.count; i++) {
		if (parsed.pieces[i].is_column)
			result += "<" + std::string(parsed.pieces[i].text) + ">";
		else
			result += parsed.pieces[i].text;
	}
	return result;
}

TEST(ResourceTemplate, PutsColumnsBetweenLiteralText)
{
	EXPECT_EQ(expand("job-{job_id}"), "job-<job_id>");
	EXPECT_EQ(expand("{tenant}/{id}"), "<tenant>/<id>");
	EXPECT_EQ(expand("{a}{b}"), "<a><b>");
	EXPECT_EQ(expand("{odd name=1}"), "<odd name=1>");
}

TEST(ResourceTemplate, DoubledBracesAreLiteral)
{
	EXPECT_EQ(expand("{{"), "{");
	EXPECT_EQ(expand("}}"), "}");
	EXPECT_EQ(expand("a{{b}}c"), "a{b}c");
	EXPECT_EQ(expand("{{{a}}}"), "{<a>}");
	EXPECT_EQ(expand("{{{{"), "{{");
}

TEST(ResourceTemplate, KnowsWhetherItIsConstant)
{
	ResourceTemplate parsed = {};

	ASSERT_EQ(parse_template("ledger{{x}}", &parsed), TemplateProblem::none);
	EXPECT_TRUE(is_constant(parsed));
	ASSERT_EQ(parse_template("ledger-{x}", &parsed), TemplateProblem::none);
	EXPECT_FALSE(is_constant(parsed));
}

TEST(ResourceTemplate, RefusesTooManyParts)
{
	std::string source;

	for (std::size_t i = 0; i < ResourceTemplate::most_pieces; i++)
		source += "{c}";
	EXPECT_EQ(problem_of(source), TemplateProblem::none);
	EXPECT_EQ(problem_of(source + "x"), TemplateProblem::too_long);
	EXPECT_EQ(problem_of(source + "{{"), TemplateProblem::too_long);
	EXPECT_EQ(problem_of(source + "{c}"), TemplateProblem::too_long);
}

} // namespace
