// SPDX-License-Identifier: PostgreSQL
// database.cpp: libpq, with an end to every wait.

#include "database.h"

#include <poll.h>

namespace torture {

namespace {

// Longer than whatever a healthy server may take (fencing.seal_timeout is 10 s).
constexpr std::int64_t longest_wait_ns = 20'000'000'000;

std::string
sqlstate_of(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return state == nullptr ? "" : state;
}

// Only words can stand in a history.
std::string
one_word(std::string text)
{
	for (char &c : text) {
		if (c == ' ' || c == '\n' || c == '\t')
			c = '_';
	}
	return text;
}

} // namespace

std::string
Answer::text() const
{
	switch (fate) {
	case Fate::ok:
		return "ok";
	case Fate::error:
		return "error sqlstate=" + sqlstate;
	case Fate::unknown:
		break;
	}
	return sqlstate.empty() ? "unknown" : "unknown sqlstate=" + sqlstate;
}

Database::Database(std::string conninfo, History &history)
	: conninfo_(std::move(conninfo)), history_(history)
{
}

Database::~Database()
{
	disconnect();
}

bool
Database::connect()
{
	disconnect();

	long request = history_.invoke("connect");
	const std::string all = conninfo_ + " connect_timeout=5 application_name=torture";

	connection_ = PQconnectdb(all.c_str());
	if (PQstatus(connection_) == CONNECTION_OK) {
		history_.answer(request, "ok pid=" + std::to_string(PQbackendPID(connection_)));
		return true;
	}

	// libpq keeps no SQLSTATE of a refused connection, only the text.
	std::string message = one_word(PQerrorMessage(connection_));

	history_.answer(request, "unknown message=" + message.substr(0, 200));
	disconnect();
	return false;
}

void
Database::disconnect()
{
	if (connection_ != nullptr)
		PQfinish(connection_);
	connection_ = nullptr;
}

Answer
Database::run(const std::string &sql)
{
	Answer answer;

	if (connection_ == nullptr)
		return answer;
	if (PQsendQuery(connection_, sql.c_str()) == 1)
		answer = collect();
	// Whatever has been said before it: with the connection goes the certainty.
	if (PQstatus(connection_) == CONNECTION_BAD) {
		answer.fate = Fate::unknown;
		disconnect();
	}
	return answer;
}

Answer
Database::collect()
{
	Answer answer;
	std::int64_t deadline = now_ns() + longest_wait_ns;
	bool failed = false;

	for (;;) {
		while (PQisBusy(connection_) == 1) {
			pollfd wait = {PQsocket(connection_), POLLIN, 0};
			std::int64_t left = deadline - now_ns();

			if (left <= 0 || poll(&wait, 1, static_cast<int>(left / 1'000'000) + 1) < 0) {
				disconnect();
				return Answer{};
			}
			if (wait.revents != 0 && PQconsumeInput(connection_) == 0)
				return Answer{Fate::unknown, answer.sqlstate, "", {}};
		}

		PGresult *result = PQgetResult(connection_);

		if (result == nullptr)
			return answer;

		ExecStatusType status = PQresultStatus(result);

		if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
			if (!failed)
				answer.fate = Fate::ok;
			answer.tag = PQcmdStatus(result);
			for (int i = 0; PQntuples(result) > 0 && i < PQnfields(result); i++)
				answer.row.emplace_back(PQgetisnull(result, 0, i) ? "" : PQgetvalue(result, 0, i));
		} else {
			failed = true;
			answer.sqlstate = sqlstate_of(result);
			// Made by libpq itself: the server has said nothing.
			answer.fate = answer.sqlstate.empty() ? Fate::unknown : Fate::error;
		}
		PQclear(result);
	}
}

} // namespace torture
