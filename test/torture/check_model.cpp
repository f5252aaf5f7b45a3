// SPDX-License-Identifier: PostgreSQL
// check_model.cpp: what follows from the lines alone: which grants count and since when, and which
// transactions have committed.
//
// An answer that was lost proves nothing, and no answer neither: such a grant or commit may have happened
// at any time after it was asked for, or never. Whatever follows takes the side that accuses nobody.

#include "check.h"

#include <algorithm>
#include <sstream>

namespace torture {

bool
is_outside(const std::string &resource)
{
	return resource.compare(0, 8, "outside-") == 0;
}

std::vector<std::string>
lines_of(std::initializer_list<const Request *> requests)
{
	std::vector<std::string> lines;

	for (const Request *request : requests) {
		if (request == nullptr)
			continue;
		for (const std::string &line : request->lines) {
			if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end())
				lines.push_back(line);
		}
	}
	return lines;
}

void
Checker::understand()
{
	std::stable_sort(requests_.begin(), requests_.end(),
		[](const Request &a, const Request &b) { return a.invoked < b.invoked; });

	for (const Request &request : requests_) {
		if (request.verb != "fault")
			continue;
		faults_.push_back(request);
		// A fault that has not been answered has not let anybody go on yet.
		if (!request.ask("safe").empty())
			losses_.push_back({request.ask_number("safe"), request.answered});
	}
	understand_works();
	understand_grants();
}

void
Checker::understand_grants()
{
	// An acquire in a block counts when its block has been kept.
	std::unordered_map<std::string, const Request *> kept;

	for (const Request &request : requests_) {
		if (request.verb == "keep" && request.ok())
			kept[request.process + ' ' + request.ask("of")] = &request;
	}
	for (const Request &request : requests_) {
		bool own = request.verb == "acquire" && request.ok() && request.tell_number("token") != 0;

		if (!own && !(request.verb == "advance" && request.ok()))
			continue;

		Grant grant = {&request, request.ask("resource"), request.process, request.tell("life"),
			own ? request.tell_number("token") : request.ask_number("token"), request.answered};

		if (!request.ask("open").empty()) {
			std::istringstream words(request.lines[0]);
			std::string time, process, number;

			words >> time >> process >> number;

			auto found = kept.find(process + ' ' + number);

			grant.since = found == kept.end() ? never : found->second->answered;
		}
		grants_.push_back(std::move(grant));
	}
	// A committed write with a token from elsewhere has raised the fence to it.
	for (const Work &work : works_) {
		if (work.outside && work.outcome == Outcome::committed && work.proof != nullptr &&
			!work.life.empty())
			raises_.push_back({work.proof, work.resource, work.request->process, work.life,
				work.token, work.proof->answered});
	}
}

// What a later request of the transaction tells of it.
void
Checker::settle_work(Work &work, const Request &request)
{
	bool prepared = !request.ask("prepared").empty();

	if (request.verb == "prepare") {
		// It commits nothing by itself.
		work.prepare = &request;
		work.outcome = Outcome::absent;
		work.proof = &request;
	} else if (request.verb == "commit") {
		// The first one, if there are several for a prepared transaction: it may have been the one.
		if (work.commit == nullptr)
			work.commit = &request;
		work.proof = &request;
		work.outcome = request.ok()                    ? Outcome::committed
			: request.fate == Fate::error && !prepared ? Outcome::absent
													   : Outcome::unknown;
	} else if (request.verb == "rollback") {
		// A life that has come back may have had it prepared once more; what was acknowledged before
		// stays acknowledged.
		if (work.outcome != Outcome::committed) {
			work.outcome = request.ok() ? Outcome::absent : Outcome::unknown;
			work.proof = &request;
		}
	} else if (request.verb == "resolve" && request.ok()) {
		work.proof = &request;
		work.outcome = request.tell("value") == "committed" ? Outcome::committed
			: request.tell("value") == "absent"             ? Outcome::absent
															: Outcome::unknown;
	}
}

void
Checker::understand_works()
{
	for (const Request &request : requests_) {
		if (request.verb != "work")
			continue;

		Work work;

		work.request = &request;
		work.op = request.ask("op");
		work.resource = request.ask("resource");
		work.life = request.tell("life");
		work.token = request.ask_number("token");
		work.rows = static_cast<int>(request.ask_number("rows"));
		work.outside = is_outside(work.resource);
		work.durable = request.ask("durable") != "0";
		// Until something is asked that could commit it.
		work.outcome = Outcome::absent;
		work.proof = &request;
		work_of_[work.op] = works_.size();
		works_.push_back(std::move(work));
	}
	for (const Request &request : requests_) {
		auto found = work_of_.find(request.ask("op"));

		if (request.verb != "work" && found != work_of_.end())
			settle_work(works_[found->second], request);
	}
	for (const Row &row : dump_.rows) {
		auto found = work_of_.find(row.op);

		if (found == work_of_.end())
			continue;
		works_[found->second].found.push_back(&row);
		works_[found->second].life = row.life;
	}
}

// The moment until which a commit that was acknowledged then may have been lost; 0: it may not.
Time
Checker::lost_until(Time acknowledged) const
{
	for (const Loss &loss : losses_) {
		if (acknowledged >= loss.after && acknowledged <= loss.before)
			return loss.before;
	}
	return 0;
}

void
Checker::violated(const char *rule, std::string text, std::vector<std::string> lines)
{
	// By time; lines of the dump, which begin with a word, come last.
	std::stable_sort(lines.begin(), lines.end(), [](const std::string &a, const std::string &b) {
		auto time_of = [](const std::string &line) {
			return line[0] >= '0' && line[0] <= '9' ? std::stoll(line) : never;
		};

		return time_of(a) < time_of(b);
	});
	// The first ones say it all, and a broken build breaks a rule at every line.
	if (violations_of_[rule]++ < 5)
		violations_.push_back({rule, std::move(text), std::move(lines)});
}

} // namespace torture
