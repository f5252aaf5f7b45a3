// SPDX-License-Identifier: PostgreSQL
// savepoint_model.cpp: every short transaction of binds, guarded writes, savepoints and grants
// elsewhere, against a model that says how each statement and the COMMIT ends.
//
// Usage: savepoint_model ISSUER ISOLATION DEPTH CONNINFO...
//
// One thread for each CONNINFO, each with a database of its own: the next token is known before it
// is drawn then, so that a transaction can present it too early. A resource for each sequence, which
// begins with a grant (an advance) of a first token; "34" is the token of the next grant.
//   fencing:  only the current token is good, at the statement and at the COMMIT.
//   external: also a greater one, which the COMMIT makes the fence.
// A guarded write names, in its column, the token of the last bind of its sequence (33 if there was
// none); what the transaction is bound to goes before it. Prints "sequences N"; a line that starts
// with "violation" for each answer that is not the model's; exit status 1 then.

#include <libpq-fe.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

enum class Step { bind_first, bind_second, write, savepoint, rollback_to, release, grant };
constexpr const char *step_names[] = {
	"bind 33", "bind 34", "write", "SAVEPOINT", "ROLLBACK TO", "RELEASE", "grant"};
constexpr int steps = 7;

using Sequence = std::vector<Step>;

// ---- the model

struct Claims {
	std::int64_t bound = 0;
	std::int64_t lowest = 0; // of the tokens written with
	std::int64_t highest = 0;
	int writes = 0;
};

class Model {
public:
	Model(bool external, std::int64_t fence) : external_(external), fence_(fence)
	{
	}

	std::string
	bind(std::int64_t token)
	{
		return present(token, [&](Claims &claims) { claims.bound = token; });
	}

	std::string
	write(std::int64_t in_column)
	{
		const Claims &now = levels_.back();
		const std::int64_t token = now.bound != 0 ? now.bound : in_column;

		return present(token, [&](Claims &claims) {
			claims.lowest = claims.lowest == 0 ? token : std::min(claims.lowest, token);
			claims.highest = std::max(claims.highest, token);
			claims.writes++;
		});
	}

	std::string
	savepoint()
	{
		if (aborted_)
			return "25P02";
		levels_.push_back(levels_.back());
		return "00000";
	}

	std::string
	rollback_to()
	{
		if (levels_.size() == 1)
			return fail("3B001");
		levels_.back() = levels_[levels_.size() - 2];
		aborted_ = false;
		return "00000";
	}

	std::string
	release()
	{
		if (aborted_)
			return "25P02";
		if (levels_.size() == 1)
			return fail("3B001");
		levels_.erase(levels_.end() - 2);
		return "00000";
	}

	void
	grant(std::int64_t token)
	{
		fence_ = token;
	}

	// A COMMIT of an aborted transaction says ROLLBACK, and is no error.
	std::string
	commit()
	{
		const Claims claims = levels_.back();

		if (aborted_) {
			levels_.back() = {};
			return "ROLLBACK";
		}
		for (std::int64_t token : {claims.bound, claims.lowest}) {
			if (token != 0 && token < fence_) {
				levels_.back() = {};
				return "TK001";
			}
		}
		fence_ = std::max({fence_, claims.bound, claims.highest});
		return "COMMIT";
	}

	std::int64_t
	bound() const
	{
		return aborted_ ? 0 : levels_.back().bound;
	}
	bool
	aborted() const
	{
		return aborted_;
	}
	std::int64_t
	fence() const
	{
		return fence_;
	}
	int
	writes() const
	{
		return levels_.back().writes;
	}

private:
	std::string
	fail(const char *state)
	{
		aborted_ = true;
		return state;
	}

	template <typename Remember>
	std::string
	present(std::int64_t token, Remember remember)
	{
		Claims &claims = levels_.back();

		if (aborted_)
			return "25P02";
		if (token < fence_ || (external_ && token < std::max(claims.bound, claims.highest)))
			return fail("TK001");
		if (token > fence_ && !external_)
			return fail("TK003");
		remember(claims);
		return "00000";
	}

	bool external_;
	bool aborted_ = false;
	std::int64_t fence_;
	std::vector<Claims> levels_ = {Claims{}};
};

// ---- the sequences

// ROLLBACK TO and RELEASE where no savepoint was asked for are left out.
void
list_sequences(Sequence *prefix, int open, int depth, std::vector<Sequence> *list)
{
	if (!prefix->empty())
		list->push_back(*prefix);
	if (static_cast<int>(prefix->size()) == depth)
		return;
	for (int number = 0; number < steps; number++) {
		const Step step = static_cast<Step>(number);
		const bool ends = step == Step::rollback_to || step == Step::release;

		if (ends && open == 0)
			continue;
		prefix->push_back(step);
		list_sequences(prefix,
			open +
				(step == Step::savepoint        ? 1
						: step == Step::release ? -1
												: 0),
			depth, list);
		prefix->pop_back();
	}
}

std::string
text_of(const Sequence &sequence)
{
	std::string text;

	for (Step step : sequence)
		text += (text.empty() ? "" : "; ") + std::string(step_names[static_cast<int>(step)]);
	return text;
}

// ---- the server

std::atomic<bool> failed{false};
std::atomic<int> violations{0};

void
violation(const std::string &what)
{
	failed = true;
	if (violations++ < 40)
		std::printf("violation: %s\n", what.c_str());
}

[[noreturn]] void
die(PGconn *connection, const char *what)
{
	std::fprintf(stderr, "%s: %s", what, PQerrorMessage(connection));
	std::exit(2);
}

PGconn *
connect(const char *conninfo)
{
	PGconn *connection = PQconnectdb(conninfo);

	if (PQstatus(connection) != CONNECTION_OK)
		die(connection, "could not connect");
	return connection;
}

void
prepare(PGconn *connection, const char *name, const char *sql)
{
	PGresult *result = PQprepare(connection, name, sql, 0, nullptr);

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		die(connection, sql);
	PQclear(result);
}

PGresult *
rows(PGconn *connection, const char *sql)
{
	PGresult *result = PQexec(connection, sql);

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		die(connection, sql);
	return result;
}

// The statements of one transaction, sent many at a time.
class Pipeline {
public:
	explicit Pipeline(const char *conninfo, const std::string &begin)
		: connection_(connect(conninfo))
	{
		prepare(connection_, "begin", begin.c_str());
		prepare(connection_, "commit", "COMMIT");
		prepare(connection_, "savepoint", "SAVEPOINT s");
		prepare(connection_, "rollback_to", "ROLLBACK TO s");
		prepare(connection_, "release", "RELEASE s");
		prepare(connection_, "bind", "SELECT fencing.bind($1, $2)");
		prepare(connection_, "bound", "SELECT token FROM fencing.bound() WHERE resource = $1");
		prepare(connection_, "write", "INSERT INTO work (resource, fence_token) VALUES ($1, $2)");
		PQenterPipelineMode(connection_);
	}

	~Pipeline()
	{
		PQfinish(connection_);
	}

	void
	send(const char *name)
	{
		send(name, 0, nullptr);
	}

	void
	send(const char *name, const std::string &resource)
	{
		const char *values[] = {resource.c_str()};

		send(name, 1, values);
	}

	void
	send(const char *name, const std::string &resource, std::int64_t token)
	{
		const std::string number = std::to_string(token);
		const char *values[] = {resource.c_str(), number.c_str()};

		send(name, 2, values);
	}

	// For each statement sent since the last call its SQLSTATE, or for a COMMIT or a question what
	// it says.
	std::vector<std::string>
	receive()
	{
		std::vector<std::string> answers;

		for (const char *name : sent_) {
			PGresult *result = PQgetResult(connection_);

			answers.push_back(answer_of(name, result));
			PQclear(result);
			if (PQgetResult(connection_) != nullptr)
				die(connection_, "more than one result");
			result = PQgetResult(connection_);
			if (PQresultStatus(result) != PGRES_PIPELINE_SYNC)
				die(connection_, "the pipeline is out of step");
			PQclear(result);
		}
		sent_.clear();
		return answers;
	}

private:
	static std::string
	answer_of(const char *name, PGresult *result)
	{
		const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

		if (state != nullptr)
			return state;
		if (std::strcmp(name, "bound") == 0)
			return PQntuples(result) == 0 ? "0" : PQgetvalue(result, 0, 0);
		return std::strcmp(name, "commit") == 0 ? PQcmdStatus(result) : "00000";
	}

	void
	send(const char *name, int count, const char *const *values)
	{
		if (PQsendQueryPrepared(connection_, name, count, values, nullptr, nullptr, 0) == 0 ||
			PQpipelineSync(connection_) == 0)
			die(connection_, name);
		sent_.push_back(name);
	}

	PGconn *connection_;
	std::vector<const char *> sent_;
};

// Who grants, and all that was granted.
class Elsewhere {
public:
	Elsewhere(const char *conninfo, bool external)
		: connection_(connect(conninfo)), external_(external)
	{
		prepare(connection_, "grant",
			external ? "SELECT fencing.advance($1, $2)"
					 : "SELECT token FROM fencing.acquire($1, '1 hour', steal => 'always') WHERE "
					   "$2::bigint > 0");
	}

	~Elsewhere()
	{
		PQfinish(connection_);
	}

	// The first tokens of many resources.
	std::vector<std::int64_t>
	grant_first(std::size_t from, std::size_t to)
	{
		char sql[200];

		std::snprintf(sql, sizeof(sql),
			external_
				? "SELECT fencing.advance('r' || i, 33) FROM generate_series(%zu, %zu) i ORDER BY i"
				: "SELECT a.token FROM generate_series(%zu, %zu) i, fencing.acquire('r' || i, '1 "
				  "hour') a ORDER BY i",
			from, to - 1);

		PGresult *result = rows(connection_, sql);
		std::vector<std::int64_t> tokens;

		for (int row = 0; row < PQntuples(result); row++) {
			tokens.push_back(std::strtoll(PQgetvalue(result, row, 0), nullptr, 10));
			drawn_ = std::max(drawn_, tokens.back());
		}
		PQclear(result);
		return tokens;
	}

	// What the next grant of a resource with that fence will be.
	std::int64_t
	next(std::int64_t fence) const
	{
		return external_ ? fence + 1 : drawn_ + 1;
	}

	// At once, whatever the transaction has done: I6. 0 when it was not granted.
	std::int64_t
	grant(const std::string &resource, std::int64_t fence)
	{
		const std::string number = std::to_string(next(fence));
		const char *values[] = {resource.c_str(), number.c_str()};
		PGresult *result = PQexecPrepared(connection_, "grant", 2, values, nullptr, nullptr, 0);
		std::int64_t token = 0;

		if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
			token = std::strtoll(PQgetvalue(result, 0, 0), nullptr, 10);
		PQclear(result);
		if (!external_)
			drawn_ = std::max(drawn_, token);
		return token;
	}

	PGconn *
	connection()
	{
		return connection_;
	}

private:
	PGconn *connection_;
	bool external_;
	std::int64_t drawn_ = 0;
};

// ---- one sequence

class Run {
public:
	Run(Pipeline *transaction, Elsewhere *elsewhere, const Sequence &sequence, std::string resource,
		std::int64_t first, bool external)
		: transaction_(transaction), elsewhere_(elsewhere), sequence_(sequence),
		  resource_(std::move(resource)), first_(first), second_(elsewhere->next(first)),
		  model_(external, first)
	{
	}

	const Model &
	play(bool ask_bound)
	{
		std::int64_t in_column = first_;

		expect("00000", "BEGIN");
		transaction_->send("begin");
		for (Step step : sequence_) {
			switch (step) {
			case Step::bind_first:
			case Step::bind_second:
				in_column = step == Step::bind_first ? first_ : second_;
				transaction_->send("bind", resource_, in_column);
				expect(model_.bind(in_column), "a bind");
				break;
			case Step::write:
				transaction_->send("write", resource_, in_column);
				expect(model_.write(in_column), "a write");
				break;
			case Step::savepoint:
				transaction_->send("savepoint");
				expect(model_.savepoint(), "a SAVEPOINT");
				break;
			case Step::rollback_to:
				transaction_->send("rollback_to");
				expect(model_.rollback_to(), "a ROLLBACK TO");
				break;
			case Step::release:
				transaction_->send("release");
				expect(model_.release(), "a RELEASE");
				break;
			case Step::grant:
				compare();
				grant();
				break;
			}
		}
		if (ask_bound && !model_.aborted()) {
			transaction_->send("bound", resource_);
			expect(std::to_string(model_.bound()), "bound()");
		}
		transaction_->send("commit");
		expect(model_.commit(), "COMMIT");
		compare();
		return model_;
	}

private:
	void
	expect(const std::string &answer, const char *statement)
	{
		expected_.push_back({answer, statement});
	}

	void
	compare()
	{
		const std::vector<std::string> answers = transaction_->receive();

		for (std::size_t i = 0; i < answers.size(); i++) {
			if (answers[i] != expected_[i].answer)
				violation("[" + text_of(sequence_) + "] " + expected_[i].statement + ": " +
					answers[i] + " instead of " + expected_[i].answer);
		}
		expected_.clear();
	}

	void
	grant()
	{
		const std::int64_t token = elsewhere_->next(model_.fence());
		const std::int64_t granted = elsewhere_->grant(resource_, model_.fence());

		if (granted != token)
			violation("[" + text_of(sequence_) + "] a grant elsewhere: token " +
				std::to_string(granted) + " instead of " + std::to_string(token));
		model_.grant(granted);
	}

	struct Expected {
		std::string answer;
		const char *statement;
	};

	Pipeline *transaction_;
	Elsewhere *elsewhere_;
	const Sequence &sequence_;
	const std::string resource_;
	const std::int64_t first_;
	const std::int64_t second_;
	Model model_;
	std::vector<Expected> expected_;
};

// ---- all of them

struct Left {
	const Sequence *sequence;
	int writes;
	std::int64_t fence;
};

// What the database holds in the end, against the models.
void
compare_tables(PGconn *connection, std::unordered_map<std::string, Left> left)
{
	PGresult *result = rows(connection,
		"SELECT resource, token, (SELECT count(*) FROM work w WHERE w.resource = f.resource) FROM "
		"fencing.fence f");

	for (int row = 0; row < PQntuples(result); row++) {
		const auto found = left.find(PQgetvalue(result, row, 0));

		if (found == left.end())
			continue;

		const Left &expected = found->second;
		const std::int64_t fence = std::strtoll(PQgetvalue(result, row, 1), nullptr, 10);
		const int writes = std::atoi(PQgetvalue(result, row, 2));

		if (fence != expected.fence)
			violation("[" + text_of(*expected.sequence) + "] leaves the fence " +
				std::to_string(fence) + " instead of " + std::to_string(expected.fence));
		if (writes != expected.writes)
			violation("[" + text_of(*expected.sequence) + "] leaves " + std::to_string(writes) +
				" rows instead of " + std::to_string(expected.writes));
		left.erase(found);
	}
	if (!left.empty())
		violation(std::to_string(left.size()) + " resources are gone");
	PQclear(result);
}

void
play_all(const char *conninfo, bool external, const std::string &begin,
	const std::vector<Sequence> &sequences, std::size_t part, std::size_t parts)
{
	constexpr std::size_t batch = 400; // the locks of so many grants fit into one transaction
	Pipeline transaction(conninfo, begin);
	Elsewhere elsewhere(conninfo, external);
	std::unordered_map<std::string, Left> left;
	std::vector<const Sequence *> mine;

	for (std::size_t i = part; i < sequences.size(); i += parts)
		mine.push_back(&sequences[i]);
	for (std::size_t from = 0; from < mine.size() && violations < 40; from += batch) {
		const std::size_t to = std::min(from + batch, mine.size());
		const std::vector<std::int64_t> first = elsewhere.grant_first(from, to);

		for (std::size_t i = from; i < to; i++) {
			const std::string resource = "r" + std::to_string(i);
			Run run(&transaction, &elsewhere, *mine[i], resource, first[i - from], external);
			// Not always: that is a statement, too, and the sequence's last one should be seen as it is.
			const Model &model = run.play(/*ask_bound=*/i % 2 == 0);

			left[resource] = {mine[i], model.writes(), model.fence()};
		}
	}
	compare_tables(elsewhere.connection(), std::move(left));
}

} // namespace

int
main(int argument_count, char **arguments)
{
	if (argument_count < 5) {
		std::fprintf(stderr, "usage: %s ISSUER ISOLATION DEPTH CONNINFO...\n", arguments[0]);
		return 2;
	}

	const bool external = std::strcmp(arguments[1], "external") == 0;
	const std::string begin = std::string("BEGIN ISOLATION LEVEL ") + arguments[2];
	std::vector<Sequence> sequences;
	Sequence prefix;
	std::vector<std::thread> threads;

	list_sequences(&prefix, 0, std::atoi(arguments[3]), &sequences);

	const std::size_t parts = argument_count - 4;

	for (std::size_t part = 0; part < parts; part++)
		threads.emplace_back(
			play_all, arguments[4 + part], external, begin, std::cref(sequences), part, parts);
	for (std::thread &thread : threads)
		thread.join();
	std::printf("sequences %zu\n", sequences.size());
	return failed ? 1 : 0;
}
