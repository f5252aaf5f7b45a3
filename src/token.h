// SPDX-License-Identifier: PostgreSQL
// token.h: issuing tokens. I1: never twice, each greater than all before. A token is durable before
// it is visible.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// Draws a token above `fence`. Raises 55000 when the sequence is unsafe.
std::int64_t draw_token(std::int64_t fence);

} // namespace fencing
