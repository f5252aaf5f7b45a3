// database.h: the little of libpq that the demo's workers need, as values that clean up after
// themselves. A statement that fails throws SqlError with the fields the server sent.
//
// SPDX-License-Identifier: PostgreSQL
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <libpq-fe.h>

struct SqlError {
	std::string sqlstate; // empty when the connection itself failed
	std::string message;
	std::string detail;
	std::string hint;
};

// The result of one statement.
class Rows {
public:
	explicit Rows(PGresult *result) : result_(result, PQclear)
	{
	}

	int
	count() const
	{
		return PQntuples(result_.get());
	}

	// The number of rows that an INSERT, UPDATE or DELETE has written.
	std::string
	written() const
	{
		return PQcmdTuples(result_.get());
	}

	// The text of a value; empty for NULL.
	std::string
	text(int row, int column) const
	{
		return PQgetvalue(result_.get(), row, column);
	}

	// Throws SqlError unless the statement succeeded.
	void
	check(PGconn *connection) const
	{
		const auto status = PQresultStatus(result_.get());
		if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
			return;
		const auto field = [this](int code) {
			const char *value = PQresultErrorField(result_.get(), code);
			return std::string(value == nullptr ? "" : value);
		};
		SqlError error{field(PG_DIAG_SQLSTATE), field(PG_DIAG_MESSAGE_PRIMARY),
			field(PG_DIAG_MESSAGE_DETAIL), field(PG_DIAG_MESSAGE_HINT)};
		if (error.sqlstate.empty()) // not from the server: the connection is lost
			error.message = PQerrorMessage(connection);
		throw error;
	}

private:
	std::unique_ptr<PGresult, decltype(&PQclear)> result_;
};

// One session. Which server, database and role: PGHOST, PGDATABASE, PGUSER, as with every client.
class Database {
public:
	Database() : connection_(PQconnectdb(""), PQfinish)
	{
		if (PQstatus(connection_.get()) != CONNECTION_OK)
			throw SqlError{{}, PQerrorMessage(connection_.get()), {}, {}};
	}

	// Runs one statement; outside BEGIN and COMMIT it is a transaction of its own.
	Rows
	run(const char *statement, const std::vector<std::string> &parameters = {})
	{
		std::vector<const char *> values;
		values.reserve(parameters.size());
		for (const auto &parameter : parameters)
			values.push_back(parameter.c_str());
		Rows rows(PQexecParams(connection_.get(), statement, static_cast<int>(values.size()),
			nullptr, values.data(), nullptr, nullptr, 0));
		rows.check(connection_.get());
		return rows;
	}

private:
	std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};
