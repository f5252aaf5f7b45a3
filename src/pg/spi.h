// SPDX-License-Identifier: PostgreSQL
// spi.h: DDL through SPI, with the caller's rights.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// Runs one utility statement. Everything in it must be qualified and quoted.
void execute_ddl(const char *statement);

} // namespace fencing
