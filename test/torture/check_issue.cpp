// SPDX-License-Identifier: PostgreSQL
// check_issue.cpp: the rules of what is issued and answered: tokens (I1, I2), fences (I3), renew and release
// (I9), and the errors (I8).

#include "check.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace torture {

namespace {

// Answers in the order of time, the greatest so far.
template <typename Item> class Highest {
public:
	void
	add(Time time, std::int64_t value, Item item)
	{
		list_.push_back({time, value, item});
	}

	void
	sort()
	{
		std::stable_sort(list_.begin(), list_.end(),
			[](const Entry &a, const Entry &b) { return a.time < b.time; });
		for (std::size_t i = 1; i < list_.size(); i++) {
			if (list_[i - 1].value > list_[i].value) {
				list_[i].value = list_[i - 1].value;
				list_[i].item = list_[i - 1].item;
			}
		}
	}

	struct Entry {
		Time time;
		std::int64_t value;
		Item item;
	};

	// The greatest of all before that moment; null when there is none.
	const Entry *
	before(Time time) const
	{
		auto found = std::partition_point(
			list_.begin(), list_.end(), [&](const Entry &entry) { return entry.time < time; });

		return found == list_.begin() ? nullptr : &*(found - 1);
	}

private:
	std::vector<Entry> list_;
};

bool
is_own_token(const Request &request)
{
	return (request.verb == "draw" || request.verb == "acquire") && request.ok() &&
		request.tell_number("token") != 0;
}

// Errors that a healthy server gives to anybody, at any time: busy, closing, not yet open, full, read only.
constexpr const char *common_errors[] = {
	"55P03", "57P01", "57P02", "57P03", "53300", "25006", "08006", "08003"};

struct Allowed {
	const char *verb;
	const char *sqlstates;
};

// TK003 only where nobody has advanced the resource yet. 55000 and 42704: of COMMIT PREPARED while the lost
// connection's own is still running, or has just ended.
constexpr Allowed allowed_errors[] = {
	{"work", "TK001 TK003 40001 40P01"},
	{"commit", "TK001 TK003 40001 40P01"},
	{"prepare", "TK001 TK003 40001 40P01"},
	{"rollback", ""},
	{"advance", "TK001"},
	{"bare", "TK002"},
};

bool
is_allowed(const Request &request, const std::string &sqlstate)
{
	if (sqlstate == "TK003" && !is_outside(request.ask("resource")) && request.verb == "work")
		return false;
	if (!request.ask("prepared").empty() && (sqlstate == "55000" || sqlstate == "42704"))
		return true;
	for (const char *common : common_errors) {
		if (sqlstate == common)
			return true;
	}
	for (const Allowed &allowed : allowed_errors) {
		if (request.verb == allowed.verb &&
			std::strstr(allowed.sqlstates, sqlstate.c_str()) != nullptr)
			return true;
	}
	return false;
}

} // namespace

// I1 and I2. Handed out is what anybody was told, also in a transaction that did not commit.
void
Checker::check_tokens()
{
	std::unordered_map<std::int64_t, const Request *> seen;
	Highest<const Request *> told;

	for (const Request &request : requests_) {
		if (!is_own_token(request))
			continue;

		std::int64_t token = request.tell_number("token");
		auto [first, fresh] = seen.emplace(token, &request);

		if (!fresh)
			violated("I1", "token " + std::to_string(token) + " was handed out twice",
				lines_of({first->second, &request}));
		told.add(request.answered, token, &request);
	}
	told.sort();
	for (const Request &request : requests_) {
		if (!is_own_token(request))
			continue;

		std::int64_t token = request.tell_number("token");
		const auto *highest = told.before(request.invoked);

		if (highest != nullptr && highest->value > token)
			violated(request.verb == "acquire" &&
						highest->item->ask("resource") == request.ask("resource")
					? "I2"
					: "I1",
				"token " + std::to_string(token) + " was asked for after " +
					std::to_string(highest->value) + " had been handed out",
				lines_of({highest->item, &request}));
	}
}

// I3, within a life: what was seen, granted or raised before is not undercut afterwards.
void
Checker::check_fences()
{
	std::map<std::string, Highest<const Request *>> known; // by resource and life

	for (const Grant &grant : grants_) {
		if (grant.since != never)
			known[grant.resource + ' ' + grant.life].add(grant.since, grant.token, grant.request);
	}
	for (const Grant &raise : raises_)
		known[raise.resource + ' ' + raise.life].add(raise.since, raise.token, raise.request);
	for (const Request &request : requests_) {
		if (request.verb == "lookup" && request.ok())
			known[request.ask("resource") + ' ' + request.tell("life")].add(
				request.answered, request.tell_number("fence"), &request);
	}
	for (auto &[key, highest] : known)
		highest.sort();

	for (const Request &request : requests_) {
		if (request.verb != "lookup" || !request.ok())
			continue;

		const auto *highest =
			known[request.ask("resource") + ' ' + request.tell("life")].before(request.invoked);

		if (highest != nullptr && highest->value > request.tell_number("fence"))
			violated("I3",
				"the fence of " + request.ask("resource") + " was " +
					std::to_string(highest->value) + " and is lower afterwards",
				lines_of({highest->item, &request}));
	}
	for (const Fence &fence : dump_.fences) {
		const auto *highest = known[fence.resource + ' ' + dump_.life].before(dump_.begun);

		if (highest == nullptr || highest->value <= fence.token)
			continue;

		std::vector<std::string> lines = lines_of({highest->item});

		lines.push_back(fence.line);
		violated("I3",
			"the fence of " + fence.resource + " was " + std::to_string(highest->value) +
				" and is lower in the end",
			std::move(lines));
	}
}

// I9: renew and release with a token that is not the current one say so.
void
Checker::check_renewals()
{
	std::map<std::string, Highest<const Grant *>> granted; // by resource
	std::map<std::string, const Request *> released;       // by life, resource and token: the first

	for (const Grant &grant : grants_) {
		if (grant.since != never)
			granted[grant.resource].add(grant.since, grant.token, &grant);
	}
	for (auto &[resource, highest] : granted)
		highest.sort();

	for (const Request &request : requests_) {
		bool renews = request.verb == "renew";

		if ((!renews && request.verb != "release") || !request.ok() || request.tell("value") != "t")
			continue;

		std::string resource = request.ask("resource");
		std::int64_t token = request.ask_number("token");
		const auto *highest = granted[resource].before(request.invoked);

		if (highest != nullptr && highest->value > token)
			violated("I9",
				request.verb + " succeeded with token " + std::to_string(token) + " of " +
					resource + " after " + std::to_string(highest->value) + " had been granted",
				lines_of({highest->item->request, &request}));

		std::string key = request.tell("life") + ' ' + resource + ' ' + std::to_string(token);
		auto before = released.find(key);

		if (before != released.end() && before->second->answered < request.invoked)
			violated("I9",
				request.verb + " succeeded with token " + std::to_string(token) + " of " +
					resource + " after it had been released",
				lines_of({before->second, &request}));
		if (!renews && before == released.end())
			released[key] = &request;
	}
}

// I7 and I8: a write without a token fails, and no error is of a state that nobody expects.
void
Checker::check_errors()
{
	for (const Request &request : requests_) {
		if (request.verb == "bare" && request.ok())
			violated("I7", "a write without a token was accepted", lines_of({&request}));

		std::string sqlstate = request.tell("sqlstate");

		if (!sqlstate.empty() && !is_allowed(request, sqlstate))
			violated("I8", request.verb + " ended with SQLSTATE " + sqlstate, lines_of({&request}));
	}
}

// I8: who is told that his token is stale has lost it to somebody: a greater one was asked for before, or the
// server has changed its life. An answer that never came counts as a reason, too.
void
Checker::check_reasons()
{
	std::map<std::string, Highest<const Request *>> asked;
	Highest<const Request *> any;
	std::set<std::string> lives;

	for (const Request &request : requests_) {
		if (!request.tell("life").empty())
			lives.insert(request.tell("life"));

		bool acquires = request.verb == "acquire";

		if (acquires && (request.fate == Fate::none || request.fate == Fate::unknown))
			asked[request.ask("resource")].add(request.invoked, never, &request);
		else if (acquires && request.ok())
			asked[request.ask("resource")].add(
				request.invoked, request.tell_number("token"), &request);
		else if (request.verb == "advance" || request.verb == "work")
			asked[request.ask("resource")].add(
				request.invoked, request.ask_number("token"), &request);
		else if (request.verb == "fault" && !request.ask("safe").empty())
			any.add(request.invoked, never, &request);
	}
	// A change of life that no nemesis has noted: nobody knows when it was.
	if (lives.size() > 1 && losses_.empty())
		return;
	any.sort();
	for (auto &[resource, highest] : asked)
		highest.sort();

	for (const Request &request : requests_) {
		if (request.tell("sqlstate") != "TK001")
			continue;

		auto work = work_of_.find(request.ask("op"));
		const Request *first = work == work_of_.end() ? &request : works_[work->second].request;
		const auto *highest = asked[first->ask("resource")].before(request.answered);

		if (any.before(request.answered) == nullptr && highest != nullptr &&
			highest->value <= first->ask_number("token"))
			violated("I8",
				"token " + first->ask("token") + " of " + first->ask("resource") +
					" was refused as stale, and nobody has asked for a greater one",
				lines_of({first, &request}));
	}
}

} // namespace torture
