// SPDX-License-Identifier: PostgreSQL
// checker.cpp: believes nobody: torture-checker. Reads what the processes have noted and what is in the tables in
// the end, and decides whether the invariants of the extension can have held.
//
// Usage: torture-checker [--dump FILE] HISTORY...
//
// Prints counts, and for each violation its rule and the lines that show it. Exit status 1 then.

#include "check.h"

#include <cstdio>
#include <cstring>

namespace torture {

void
Checker::check()
{
	understand();
	check_tokens();
	check_fences();
	check_renewals();
	check_errors();
	check_reasons();
	check_outcomes();
	check_order();
	check_stale_commits();
	check_handover();
	check_origin();
	check_states();
}

bool
Checker::report() const
{
	std::map<std::string, long> answers, refusals, faults;
	long rounds = 0, grants = 0, committed = 0, lost_answers = 0, of_lost = 0;

	for (const Request &request : requests_) {
		answers[request.verb]++;
		rounds += request.verb == "read" && request.ok();
		of_lost += request.verb == "work" && request.ask("lost") == "1";
		lost_answers += request.fate == Fate::unknown && request.verb != "connect";
		if (!request.tell("sqlstate").empty())
			refusals[request.tell("sqlstate")]++;
	}
	for (const Request &fault : faults_)
		faults[fault.ask("kind")]++;
	for (const Grant &grant : grants_)
		grants += grant.since != never;
	for (const Work &work : works_)
		committed += work.outcome == Outcome::committed;

	std::printf(
		"rounds %ld, grants and advances %ld, tokens drawn %ld\n", rounds, grants, answers["draw"]);
	std::printf(
		"transactions %zu, committed %ld, begun with a token known to be lost %ld, rows in the "
		"end %zu\n",
		works_.size(), committed, of_lost, dump_.rows.size());
	std::printf("refusals and errors:");
	for (const auto &[sqlstate, count] : refusals)
		std::printf(" %s %ld", sqlstate.c_str(), count);
	std::printf("; answers lost %ld, connections %ld\n", lost_answers, answers["connect"]);
	std::printf("faults:");
	for (const auto &[kind, count] : faults)
		std::printf(" %s %ld", kind.c_str(), count);
	std::printf("%s\n", faults.empty() ? " none" : "");

	for (const Violation &violation : violations_) {
		std::printf("violation of %s: %s\n", violation.rule.c_str(), violation.text.c_str());
		for (const std::string &line : violation.lines)
			std::printf("    %s\n", line.c_str());
	}

	long all = 0;

	for (const auto &[rule, count] : violations_of_)
		all += count;
	std::printf("violations %ld", all);
	for (const auto &[rule, count] : violations_of_)
		std::printf(" %s %ld", rule.c_str(), count);
	std::printf("\n");
	return all == 0;
}

} // namespace torture

int
main(int argc, char **argv)
{
	torture::Checker checker;
	int histories = 0;

	for (int i = 1; i < argc; i++) {
		if (std::strcmp(argv[i], "--dump") == 0 && i + 1 < argc) {
			checker.read_dump(argv[++i]);
			continue;
		}
		checker.read_history(argv[i]);
		histories++;
	}
	if (histories == 0) {
		std::fprintf(stderr, "usage: torture-checker [--dump FILE] HISTORY...\n");
		return 2;
	}
	checker.check();
	return checker.report() ? 0 : 1;
}
