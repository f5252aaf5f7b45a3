// SPDX-License-Identifier: PostgreSQL
// check_writes.cpp: the rules of what was written: no stale write commits (I4, I5), none is lost, a refusal
// leaves nothing behind (I8).

#include "check.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace torture {

namespace {

// xmin:xmax:xip, as pg_current_snapshot() prints it.
struct Snapshot {
	std::int64_t xmin = 0, xmax = 0;
	std::set<std::int64_t> running;

	explicit Snapshot(const std::string &text)
	{
		std::istringstream stream(text);
		char separator;
		std::int64_t xid;

		stream >> xmin >> separator >> xmax >> separator;
		while (stream >> xid) {
			running.insert(xid);
			stream >> separator;
		}
	}

	bool
	sees(std::int64_t xid) const
	{
		return xid < xmax && running.count(xid) == 0;
	}
};

std::vector<std::string>
lines_with(std::vector<std::string> lines, const std::vector<const Row *> &rows)
{
	for (const Row *row : rows)
		lines.push_back(row->line);
	return lines;
}

std::vector<std::string>
lines_of(const Work &work)
{
	return torture::lines_of({work.request, work.prepare, work.commit, work.proof});
}

std::string
name_of(const Work &work)
{
	return "transaction " + work.op + " with token " + std::to_string(work.token) + " of " +
		work.resource;
}

} // namespace

// A committed transaction is there, whole; one that is known not to be committed is not there at all.
void
Checker::check_outcomes()
{
	for (const Row &row : dump_.rows) {
		if (work_of_.count(row.op) == 0)
			violated("I8", "a row that nobody has written", {row.line});
	}
	for (const Work &work : works_) {
		std::set<int> parts;

		for (const Row *row : work.found) {
			parts.insert(row->part);
			if (row->resource != work.resource || row->token != work.token)
				violated("I4", name_of(work) + " left a row with another token",
					lines_with(lines_of(work), {row}));
		}
		if (!parts.empty() && *parts.rbegin() >= 100)
			violated("I8", name_of(work) + " left what its savepoint had rolled back",
				lines_with(lines_of(work), work.found));
		else if (!parts.empty() && static_cast<int>(parts.size()) != work.rows)
			violated(
				"I8", name_of(work) + " is there in part", lines_with(lines_of(work), work.found));

		// What was lost by one life may come back with the backup of an earlier one.
		bool returned = work.proof->verb == "resolve" && !losses_.empty() &&
			losses_.back().before > work.proof->answered;

		if (work.outcome == Outcome::absent && !parts.empty() && !returned)
			violated("I8", name_of(work) + " has not committed, and left rows",
				lines_with(lines_of(work), work.found));
		if (work.outcome == Outcome::committed && parts.empty() && work.durable && dumped_ &&
			work.proof->answered < dump_.begun && lost_until(work.proof->answered) == 0)
			violated("lost", name_of(work) + " was acknowledged, and is not there", lines_of(work));
	}
}

// I4 and I5: in the order in which the transactions of a resource have committed, which their number `seq`
// tells, no token is lower than one before; and nobody has written a number that was taken.
void
Checker::check_order()
{
	std::map<std::string, std::vector<const Row *>> order;

	for (const Row &row : dump_.rows) {
		if (row.seq != 0)
			order[row.resource].push_back(&row);
	}
	for (auto &[resource, rows] : order) {
		std::sort(
			rows.begin(), rows.end(), [](const Row *a, const Row *b) { return a->seq < b->seq; });
		for (std::size_t i = 1; i < rows.size(); i++) {
			if (rows[i]->seq == rows[i - 1]->seq)
				violated("I5",
					"two transactions of " + resource + " have written from the same state",
					{rows[i - 1]->line, rows[i]->line});
			else if (rows[i]->token < rows[i - 1]->token)
				violated("I5", "a lower token of " + resource + " has written after a greater one",
					{rows[i - 1]->line, rows[i]->line});
		}
	}
}

// I5: whose commit was asked for after a greater token had been granted, and its grant acknowledged, has not
// committed. Of a prepared transaction it is the COMMIT PREPARED: until then no grant is possible.
void
Checker::check_stale_commits()
{
	struct Event {
		Time time;
		const Grant *grant; // or
		const Work *work;
	};
	struct Highest {
		std::int64_t token = 0;
		const Grant *grant = nullptr;
	};
	std::map<std::string, std::vector<Event>> events;

	for (const auto *list : {&grants_, &raises_}) {
		for (const Grant &grant : *list) {
			if (grant.since != never)
				events[grant.resource].push_back({grant.since, &grant, nullptr});
		}
	}
	for (const Work &work : works_) {
		bool committed = work.outcome == Outcome::committed || !work.found.empty();

		if (committed && work.commit != nullptr)
			events[work.resource].push_back({work.commit->invoked, nullptr, &work});
	}
	for (auto &[resource, list] : events) {
		std::stable_sort(list.begin(), list.end(),
			[](const Event &a, const Event &b) { return a.time < b.time; });

		std::map<std::string, Highest> of_life;
		Highest of_all;

		for (const Event &event : list) {
			if (event.grant != nullptr) {
				for (Highest *highest : {&of_life[event.grant->life], &of_all}) {
					if (event.grant->token > highest->token)
						*highest = {event.grant->token, event.grant};
				}
				continue;
			}

			// The fence of a resource from elsewhere may have been lost with a life; and what an old
			// life still accepted is not there any more.
			bool everywhere = !event.work->outside && !event.work->found.empty();
			const Highest &highest = everywhere ? of_all : of_life[event.work->life];

			if (highest.token > event.work->token) {
				auto lines = torture::lines_of({highest.grant->request});

				for (const std::string &line : lines_of(*event.work))
					lines.push_back(line);
				violated("I5",
					name_of(*event.work) + " has committed after " + std::to_string(highest.token) +
						" had been granted",
					lines_with(lines, event.work->found));
			}
		}
	}
}

// I5: a holder who reads after its grant has seen everything that lower tokens ever wrote. This sees also
// what slips in between a grant and its acknowledgement.
void
Checker::check_handover()
{
	struct Written {
		std::int64_t xid;
		const Row *row;
		const Row *lowest_from_here; // of this and all with a greater xid
	};
	std::map<std::string, std::vector<Written>> written; // by resource and life

	for (const Row &row : dump_.rows)
		written[row.resource + ' ' + row.life].push_back({row.xid, &row, nullptr});
	for (auto &[key, list] : written) {
		std::sort(list.begin(), list.end(),
			[](const Written &a, const Written &b) { return a.xid < b.xid; });
		for (std::size_t i = list.size(); i-- > 0;) {
			list[i].lowest_from_here = list[i].row;
			if (i + 1 < list.size() && list[i + 1].lowest_from_here->token < list[i].row->token)
				list[i].lowest_from_here = list[i + 1].lowest_from_here;
		}
	}

	// Only a grant of that process in that life, acknowledged before it reads, closes the door.
	std::unordered_map<std::string, const Grant *> granted;

	for (const Grant &grant : grants_) {
		if (grant.since != never)
			granted[grant.resource + ' ' + std::to_string(grant.token)] = &grant;
	}
	for (const Request &request : requests_) {
		if (request.verb != "read" || !request.ok())
			continue;

		auto grant = granted.find(request.ask("resource") + ' ' + request.ask("token"));

		if (grant == granted.end() || grant->second->life != request.tell("life") ||
			grant->second->process != request.process || grant->second->since > request.invoked)
			continue;

		const auto &list = written[request.ask("resource") + ' ' + request.tell("life")];
		Snapshot snapshot(request.tell("snapshot"));
		std::int64_t token = request.ask_number("token");
		const Row *late = nullptr;
		auto next = std::partition_point(list.begin(), list.end(),
			[&](const Written &entry) { return entry.xid < snapshot.xmin; });

		for (; next != list.end() && next->xid < snapshot.xmax && late == nullptr; ++next) {
			if (next->row->token < token && !snapshot.sees(next->xid))
				late = next->row;
		}
		if (late == nullptr && next != list.end() && next->lowest_from_here->token < token)
			late = next->lowest_from_here;
		if (late == nullptr)
			continue;

		std::vector<std::string> lines = torture::lines_of({grant->second->request, &request});
		auto work = work_of_.find(late->op);

		if (work != work_of_.end()) {
			for (const std::string &line : lines_of(works_[work->second]))
				lines.push_back(line);
		}
		violated("I5",
			"token " + std::to_string(late->token) + " of " + late->resource +
				" has written, unseen by the holder of " + std::to_string(token),
			lines_with(lines, {late}));
	}
}

// I5 over lives: a token counts in the life that has granted it, and for the process that was granted it.
void
Checker::check_origin()
{
	std::unordered_map<std::int64_t, const Grant *> granted;

	for (const Grant &grant : grants_) {
		if (!is_outside(grant.resource))
			granted[grant.token] = &grant;
	}
	for (const Row &row : dump_.rows) {
		auto work = work_of_.find(row.op);

		// A row that carries another token than its transaction has been reported already.
		if (is_outside(row.resource) || work == work_of_.end() ||
			works_[work->second].token != row.token)
			continue;

		auto grant = granted.find(row.token);
		const Work &writer = works_[work->second];

		if (grant == granted.end() || grant->second->resource != row.resource ||
			grant->second->process != writer.request->process) {
			violated("I5", name_of(writer) + " was never granted it",
				lines_with(lines_of(writer), {&row}));
		} else if (grant->second->life != row.life) {
			auto lines = torture::lines_of({grant->second->request});

			for (const std::string &line : lines_of(writer))
				lines.push_back(line);
			violated("I5",
				name_of(writer) + " was accepted in life " + row.life + ", and granted in life " +
					grant->second->life,
				lines_with(lines, {&row}));
		}
	}
}

// I4: no row has got a lower token than it had, nor none where one stood; and the row of a resource is that
// of the last transaction which has written it.
void
Checker::check_states()
{
	std::map<std::string, const Row *> last;

	for (const Change &change : dump_.changes) {
		if (change.after < change.before)
			violated("I4", "a row got a lower token", {change.line});
	}
	for (const Row &row : dump_.rows) {
		const Row *&found = last[row.resource];

		if (row.seq != 0 && (found == nullptr || found->seq < row.seq))
			found = &row;
	}
	for (const State &state : dump_.states) {
		const Row *row = last[state.resource];
		bool same = row == nullptr
			? state.seq == 0
			: row->seq == state.seq && row->op == state.op && row->token == state.token;

		if (!same)
			violated("I8", "the row of " + state.resource + " is not that of its last transaction",
				row == nullptr ? std::vector<std::string>{state.line}
							   : std::vector<std::string>{state.line, row->line});
	}
}

} // namespace torture
