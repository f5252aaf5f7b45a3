// SPDX-License-Identifier: PostgreSQL
// spi.cpp: DDL through SPI, with the caller's rights.

#include "pg/spi.h"

extern "C" {
#include "executor/spi.h"
}

namespace fencing {

void
execute_ddl(const char *statement)
{
	SPI_connect();
	int result = SPI_execute(statement, /*read_only=*/false, 0);

	if (result != SPI_OK_UTILITY)
		elog(ERROR, "unexpected result %s of \"%s\"", SPI_result_code_string(result), statement);
	SPI_finish();
}

} // namespace fencing
