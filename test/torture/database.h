// SPDX-License-Identifier: PostgreSQL
// database.h: one connection that may be lost at any moment, and what became of a statement.
#pragma once

#include <libpq-fe.h>

#include <string>
#include <vector>

#include "history.h"

namespace torture {

// unknown: the connection is gone, and with it the answer.
enum class Fate { ok, error, unknown };

struct Answer {
	Fate fate = Fate::unknown;
	std::string sqlstate;         // of an error; of a lost connection, if it said something
	std::string tag;              // COMMIT, ROLLBACK, UPDATE 1, ...
	std::vector<std::string> row; // the first row

	bool
	ok() const
	{
		return fate == Fate::ok;
	}

	// As it stands in a history.
	std::string text() const;
};

class Database {
public:
	Database(std::string conninfo, History &history);
	~Database();
	Database(const Database &) = delete;
	Database &operator=(const Database &) = delete;

	// One attempt to have a connection that can write.
	bool connect();
	bool
	connected() const
	{
		return connection_ != nullptr;
	}
	void disconnect();
	int
	backend() const
	{
		return PQbackendPID(connection_);
	}

	// Runs one statement. Never waits for ever: a silent server counts as a lost connection.
	Answer run(const std::string &sql);

private:
	Answer collect();

	std::string conninfo_;
	History &history_;
	PGconn *connection_ = nullptr;
};

} // namespace torture
