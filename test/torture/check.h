// SPDX-License-Identifier: PostgreSQL
// check.h: what the checker knows: requests and answers of all processes, the final tables, and what follows
// from them. It reads files and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace torture {

using Time = std::int64_t; // nanoseconds of CLOCK_MONOTONIC

constexpr Time never = INT64_MAX;

// none: no answer was noted, since the process was killed, or has not got it yet.
enum class Fate { none, ok, error, unknown };

// One request of one process, with its answer.
struct Request {
	std::string process;
	std::string verb;
	Time invoked = 0;
	Time answered = never;
	Fate fate = Fate::none;
	std::map<std::string, std::string> asked;
	std::map<std::string, std::string> told;
	std::string lines[2]; // as they stand in the history

	bool
	ok() const
	{
		return fate == Fate::ok;
	}
	std::string ask(const char *key) const; // "" when there is none
	std::string tell(const char *key) const;
	std::int64_t ask_number(const char *key) const; // 0 when there is none
	std::int64_t tell_number(const char *key) const;
};

// A row of a log table.
struct Row {
	std::string table, op, resource, life, line;
	int part = 0;
	int worker = 0;
	std::int64_t token = 0;
	std::int64_t seq = 0; // 0: none
	std::int64_t xid = 0;
};

struct State {
	std::string table, resource, op, line;
	std::int64_t seq = 0;
	std::int64_t token = 0;
};

struct Change {
	std::string line;
	std::int64_t before = 0;
	std::int64_t after = 0;
};

struct Fence {
	std::string resource, line;
	std::int64_t token = 0;
};

// The tables, as one snapshot between two moments.
struct Dump {
	Time begun = never;
	Time ended = never;
	std::string life;
	std::vector<Row> rows;
	std::vector<State> states;
	std::vector<Change> changes;
	std::vector<Fence> fences;
};

// A grant, an advance, or a fence that a committed write has raised: from `since` on, at the latest, every
// lower token of the resource is stale.
struct Grant {
	const Request *request;
	std::string resource, process, life;
	std::int64_t token;
	Time since; // never: not known to be committed
};

enum class Outcome { committed, absent, unknown };

// A transaction that writes.
struct Work {
	const Request *request;          // its beginning
	const Request *commit = nullptr; // the request that may have committed it
	const Request *proof = nullptr;  // the answer that tells the outcome
	const Request *prepare = nullptr;
	std::string op, resource, life;
	std::int64_t token = 0;
	int rows = 0;
	bool outside = false;
	bool durable = true;
	Outcome outcome = Outcome::unknown;
	std::vector<const Row *> found; // in the final tables
};

// Commits that were acknowledged between these moments may be gone.
struct Loss {
	Time after, before;
};

struct Violation {
	std::string rule; // I1 ... I10, or another word
	std::string text;
	std::vector<std::string> lines; // all that matters, and nothing else
};

class Checker {
public:
	// Both exit with status 2 when a file cannot be read or understood.
	void read_history(const char *path);
	void read_dump(const char *path);

	// Applies every rule.
	void check();

	// Counts and violations, to standard output. Whether there are none.
	bool report() const;

private:
	// check_model.cpp
	void understand();
	void understand_grants();
	void understand_works();
	void settle_work(Work &work, const Request &request);
	Time lost_until(Time acknowledged) const;

	// check_issue.cpp
	void check_tokens();
	void check_fences();
	void check_renewals();
	void check_errors();
	void check_reasons();

	// check_writes.cpp
	void check_outcomes();
	void check_order();
	void check_stale_commits();
	void check_handover();
	void check_origin();
	void check_states();

	void violated(const char *rule, std::string text, std::vector<std::string> lines);

	std::vector<Request> requests_;
	std::vector<Request> faults_;
	std::unordered_map<std::string, std::size_t> open_; // process and number -> request
	Dump dump_;
	bool dumped_ = false;

	std::vector<Grant> grants_;
	std::vector<Grant> raises_; // of resources whose tokens come from elsewhere, by a write
	std::vector<Work> works_;
	std::unordered_map<std::string, std::size_t> work_of_; // op -> work
	std::vector<Loss> losses_;
	std::vector<Violation> violations_;
	std::map<std::string, long> violations_of_;
};

bool is_outside(const std::string &resource);
std::vector<std::string> lines_of(std::initializer_list<const Request *> requests);

} // namespace torture
