// libpq_traps TRAP...: the traps of libpq that docs/recipes/libpq.md tells of. Prints "TRAP: what came of it" for each.
#include <libpq-fe.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>

// The first value of the answer, or the SQLSTATE of the error.
static std::string
ask(PGconn *connection, const std::string &sql)
{
	PGresult *result = PQexec(connection, sql.c_str());
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	std::string answer = sqlstate != nullptr ? sqlstate : "ok";
	if (sqlstate == nullptr && PQntuples(result) > 0)
		answer = PQgetvalue(result, 0, 0);
	PQclear(result);
	return answer;
}

static std::string
bind_to(const std::string &name, const std::string &token)
{
	return "SELECT fencing.bind('" + name + "', " + token + ")";
}

static std::string
update(const std::string &name, const std::string &body)
{
	return "UPDATE report SET body = '" + body + "' WHERE name = '" + name + "'";
}

static std::string
body(PGconn *connection, const std::string &name)
{
	return ask(connection, "SELECT body FROM report WHERE name = '" + name + "'");
}

static std::string
acquire(PGconn *connection, const std::string &name)
{
	return ask(connection,
		"SELECT token FROM fencing.acquire('" + name + "', '1 hour', steal => 'always')");
}

// Statements sent with one PQexec are one transaction.
static std::string
batch(PGconn *connection, const std::string &name)
{
	const std::string token = acquire(connection, name);
	const std::string written =
		ask(connection, bind_to(name, token) + ";" + update(name, "of the batch"));
	return written + ", " + body(connection, name);
}

// Sent one by one, each is its own.
static std::string
one_by_one(PGconn *connection, const std::string &name)
{
	ask(connection, bind_to(name, acquire(connection, name)));
	const std::string written = ask(connection, update(name, "of the second"));
	return written + ", " + body(connection, name);
}

// The take-over comes after the last statement: the refusal is the answer to COMMIT, and the write is gone.
static std::string
at_commit(PGconn *connection, const std::string &name)
{
	const std::string token = acquire(connection, name);
	PGconn *other = PQconnectdb("");
	ask(connection, "BEGIN");
	ask(connection, bind_to(name, token));
	const std::string written = ask(connection, update(name, "late"));
	acquire(other, name);
	PQfinish(other);
	const std::string committed = ask(connection, "COMMIT");
	const std::string open =
		PQtransactionStatus(connection) == PQTRANS_IDLE ? "no transaction" : "a transaction";
	return written + ", then " + committed + ", " + open + ", " + body(connection, name);
}

// COMMIT of a transaction that has failed is no error: its tag says ROLLBACK.
static std::string
commit_of_failed(PGconn *connection, const std::string &name)
{
	const std::string old = acquire(connection, name);
	acquire(connection, name);
	ask(connection, "BEGIN");
	const std::string refused = ask(connection, bind_to(name, old));
	PGresult *result = PQexec(connection, "COMMIT");
	const std::string tag =
		PQresultStatus(result) == PGRES_COMMAND_OK ? PQcmdStatus(result) : "an error";
	PQclear(result);
	return refused + ", then " + tag;
}

// In a pipeline the statements up to a sync are one transaction, without BEGIN.
static std::string
pipeline(PGconn *connection, const std::string &name)
{
	const std::string token = acquire(connection, name);
	std::string answer;
	PQenterPipelineMode(connection);
	for (const std::string &sql : {bind_to(name, token), update(name, "of the pipeline")})
		PQsendQueryParams(connection, sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0);
	PQpipelineSync(connection);
	for (bool synced = false; !synced;)
		while (PGresult *result = PQgetResult(connection)) {
			synced = synced || PQresultStatus(result) == PGRES_PIPELINE_SYNC;
			if (const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE))
				answer += std::string(sqlstate) + ", ";
			PQclear(result);
			if (synced)
				break;
		}
	PQexitPipelineMode(connection);
	return answer + body(connection, name);
}

int
main(int count, char **arguments)
{
	const std::map<std::string, std::function<std::string(PGconn *, const std::string &)>> traps = {
		{"batch", batch}, {"one by one", one_by_one}, {"at commit", at_commit},
		{"commit of failed", commit_of_failed}, {"pipeline", pipeline}};
	PGconn *connection = PQconnectdb("");
	for (int i = 1; i < count; i++)
		std::cout << arguments[i] << ": " << traps.at(arguments[i])(connection, arguments[i])
				  << std::endl;
	PQfinish(connection);
	return EXIT_SUCCESS;
}
