// SPDX-License-Identifier: PostgreSQL
// fast_forward_race.cpp: one session calls fencing.fast_forward close to the running value while
// others draw in open transactions.
//
// Usage: fast_forward_race CONNINFO DRAWERS CALLS
//
// Before each draw a drawer notes the highest value that fast_forward has returned so far: the
// token must be greater. All tokens together must be different. Nobody may wait: lock_timeout is
// 2 s everywhere, and most drawers never end their transaction while the calls are made. Prints
// one line of counts; a line that starts with "violation" for each broken promise; exit status 1
// then, or when a statement failed.

#include <libpq-fe.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

std::atomic<std::int64_t> promised{0};
std::atomic<std::int64_t> draws{0};
std::atomic<int> ready{0};
std::atomic<bool> stop{false};
std::atomic<bool> failed{false};

PGconn *
connect(const char *conninfo)
{
	PGconn *connection = PQconnectdb(conninfo);

	if (PQstatus(connection) != CONNECTION_OK) {
		std::fprintf(stderr, "could not connect: %s", PQerrorMessage(connection));
		std::exit(1);
	}
	return connection;
}

// The first column of the first row as a number; 0 for a command, and after an error.
std::int64_t
number(PGconn *connection, const char *sql)
{
	PGresult *result = PQexec(connection, sql);
	const ExecStatusType status = PQresultStatus(result);
	std::int64_t value = 0;

	if (status == PGRES_TUPLES_OK && PQntuples(result) > 0)
		value = std::strtoll(PQgetvalue(result, 0, 0), nullptr, 10);
	else if (status != PGRES_COMMAND_OK) {
		std::printf("violation: %s: %s", sql, PQerrorMessage(connection));
		failed = true;
	}
	PQclear(result);
	return value;
}

void
draw(const char *conninfo, bool keep_open, std::vector<std::int64_t> *tokens)
{
	PGconn *connection = connect(conninfo);
	std::int64_t last = 0;

	number(connection, "SET lock_timeout = '2s'");
	number(connection, "BEGIN");
	while (!stop && !failed) {
		const std::int64_t floor = promised;
		const std::int64_t token = number(connection, "SELECT fencing.next_token()");

		if (token == 0)
			break;
		if (token <= floor) {
			std::printf("violation: drew %lld after fast_forward had returned %lld\n",
				static_cast<long long>(token), static_cast<long long>(floor));
			failed = true;
		}
		if (token <= last) {
			std::printf("violation: drew %lld after %lld in one session\n",
				static_cast<long long>(token), static_cast<long long>(last));
			failed = true;
		}
		last = token;
		tokens->push_back(token);
		draws++;
		if (tokens->size() == 1)
			ready++;
		if (!keep_open && tokens->size() % 50 == 0) {
			number(connection, "ROLLBACK");
			number(connection, "BEGIN");
		}
	}
	number(connection, "COMMIT");
	PQfinish(connection);
}

void
fast_forward(const char *conninfo, int calls)
{
	PGconn *connection = connect(conninfo);

	number(connection, "SET lock_timeout = '2s'");
	for (int call = 0; call < calls && !failed; call++) {
		// Open transactions of its own kind half of the time, and wait for some draws in between.
		if (call % 100 == 0)
			number(connection, "BEGIN");
		if (call % 100 == 50)
			number(connection, "ROLLBACK");
		const std::int64_t drawn = draws;
		while (draws < drawn + 3 && !failed)
			std::this_thread::sleep_for(std::chrono::microseconds(20));

		const std::int64_t above = std::max<std::int64_t>(
			0, number(connection, "SELECT last_value FROM fencing.token_seq") + call % 6 - 1);
		char sql[100];
		std::snprintf(
			sql, sizeof(sql), "SELECT fencing.fast_forward(%lld)", static_cast<long long>(above));
		const std::int64_t returned = number(connection, sql);

		if (returned < above) {
			std::printf("violation: fast_forward(%lld) returned %lld\n",
				static_cast<long long>(above), static_cast<long long>(returned));
			failed = true;
		}
		promised = std::max<std::int64_t>(promised, returned);
	}
	PQfinish(connection);
}

} // namespace

int
main(int argument_count, char **arguments)
{
	if (argument_count != 4) {
		std::fprintf(stderr, "usage: %s CONNINFO DRAWERS CALLS\n", arguments[0]);
		return 2;
	}

	const int drawers = std::atoi(arguments[2]);
	std::vector<std::vector<std::int64_t>> tokens(drawers);
	std::vector<std::thread> threads;

	for (int drawer = 0; drawer < drawers; drawer++)
		threads.emplace_back(draw, arguments[1], drawer % 4 != 0, &tokens[drawer]);
	while (ready < drawers && !failed)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	fast_forward(arguments[1], std::atoi(arguments[3]));
	stop = true;
	for (auto &thread : threads)
		thread.join();

	std::vector<std::int64_t> all;
	for (const auto &drawn : tokens)
		all.insert(all.end(), drawn.begin(), drawn.end());
	std::sort(all.begin(), all.end());
	const auto twice = std::adjacent_find(all.begin(), all.end());
	if (twice != all.end()) {
		std::printf("violation: token %lld was drawn twice\n", static_cast<long long>(*twice));
		failed = true;
	}
	std::printf("draws %zu\n", all.size());
	return failed ? 1 : 0;
}
