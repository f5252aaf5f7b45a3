// SPDX-License-Identifier: PostgreSQL
// arguments.h: the arguments of SQL functions, checked. No function of ours is STRICT: a NULL token
// must be an error, not a NULL result that passes for consent.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "utils/timestamp.h"
}

namespace fencing {

constexpr std::size_t longest_resource = 512; // bytes

// 22023; `detail` says what it is instead.
[[noreturn]] void raise_bad_resource_name(const char *detail);

// 22004 when the argument is NULL.
void require_argument(FunctionCallInfo fcinfo, int number, const char *name);

// A resource name: 22004 for NULL, 22023 when empty or longer than 512 bytes.
const text *resource_argument(FunctionCallInfo fcinfo, int number);

// A presented token: 22004 for NULL, 22023 below 1.
std::int64_t token_argument(FunctionCallInfo fcinfo, int number);

// A time to live: 22004 for NULL, 22023 unless more than 0, finite and at most 10 years.
const Interval *ttl_argument(FunctionCallInfo fcinfo, int number);

// A span in microseconds, with months of 30 days and days of 24 hours; one that would overflow is
// as long as can be. 22004 for NULL, 22023 for a negative or infinite one.
std::int64_t span_argument(FunctionCallInfo fcinfo, int number, const char *name);

// When a lease ends that begins now; 22023 if not later than now (an interval may count months
// forwards and days backwards). Reckoned in UTC, where a day has 24 hours: otherwise one ttl would
// mean different times in sessions with different TimeZone.
TimestampTz expiry(TimestampTz now, const Interval *ttl);

} // namespace fencing
