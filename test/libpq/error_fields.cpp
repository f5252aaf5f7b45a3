// SPDX-License-Identifier: PostgreSQL
// error_fields.cpp: prints the fields of each error and each warning as a driver reads them.
//
// Usage: error_fields CONNINFO STATEMENT...
//
// For each error or notice one block: a line "result STATEMENT-NUMBER" or "notice STATEMENT-NUMBER",
// a line "name: value" for each field that PQresultErrorField has, and an empty line.

#include <libpq-fe.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct Field {
	int code;
	const char *name;
};

constexpr Field fields[] = {
	{PG_DIAG_SEVERITY_NONLOCALIZED, "severity"},
	{PG_DIAG_SQLSTATE, "sqlstate"},
	{PG_DIAG_MESSAGE_PRIMARY, "message"},
	{PG_DIAG_MESSAGE_DETAIL, "detail"},
	{PG_DIAG_MESSAGE_HINT, "hint"},
	{PG_DIAG_SCHEMA_NAME, "schema"},
	{PG_DIAG_TABLE_NAME, "table"},
	{PG_DIAG_COLUMN_NAME, "column"},
	{PG_DIAG_DATATYPE_NAME, "datatype"},
	{PG_DIAG_CONSTRAINT_NAME, "constraint"},
	{PG_DIAG_CONTEXT, "context"},
};

int statement_number = 0;

void
print_fields(const char *kind, const PGresult *result)
{
	std::printf("%s %d\n", kind, statement_number);
	for (const Field &field : fields) {
		const char *value = PQresultErrorField(result, field.code);

		if (value != nullptr)
			std::printf("%s: %s\n", field.name, value);
	}
	std::printf("\n");
}

extern "C" void
receive_notice(void * /*argument*/, const PGresult *result)
{
	print_fields("notice", result);
}

} // namespace

int
main(int argument_count, char **arguments)
{
	if (argument_count < 2)
		return 2;

	PGconn *connection = PQconnectdb(arguments[1]);

	if (PQstatus(connection) != CONNECTION_OK) {
		std::fprintf(stderr, "could not connect: %s", PQerrorMessage(connection));
		return 1;
	}
	PQsetNoticeReceiver(connection, receive_notice, nullptr);
	for (int argument = 2; argument < argument_count; argument++) {
		statement_number = argument - 1;

		PGresult *result = PQexec(connection, arguments[argument]);

		if (PQresultStatus(result) == PGRES_FATAL_ERROR)
			print_fields("result", result);
		PQclear(result);
	}
	PQfinish(connection);
	return 0;
}
