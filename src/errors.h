// SPDX-License-Identifier: PostgreSQL
// errors.h: every SQLSTATE of the extension, and the messages that are raised from several places.
//
// Class TK is outside every class that drivers and frameworks retry (08, 40, 53, 55, 57), and its
// first letter lies in the range that the SQL standard leaves to implementations.
#pragma once

#include "pg/prelude.h"

// Lower than the row's token or the resource's fence.
#define ERRCODE_STALE_TOKEN MAKE_SQLSTATE('T', 'K', '0', '0', '1')
// A guarded write that carries no token.
#define ERRCODE_MISSING_TOKEN MAKE_SQLSTATE('T', 'K', '0', '0', '2')
// A token that was never granted for the resource, or the resource is unknown.
#define ERRCODE_UNISSUED_TOKEN MAKE_SQLSTATE('T', 'K', '0', '0', '3')

namespace fencing {

// What a loser should do, one of them said with every TK001; the second where an epoch has ended.
constexpr const char *stale_hint =
	"Another holder has come since. Stop, acquire again, and do not retry with this token.";

constexpr const char *ended_hint =
	"Another holder may have come since. Stop, acquire again, and do not retry with this token.";

// What an error says, for callers that add fields of their own.
struct Refusal {
	int sqlstate;
	const char *message;
	const char *detail; // null: none
	const char *hint;   // null: none
	std::string_view resource = {};
	std::int64_t presented = 0; // 0: none
	std::int64_t current = 0;   // 0: none
};
static_assert(survives_longjmp<Refusal>);

// Within ereport(): everything that the refusal says.
int describe(const Refusal &refusal);

// Raises or, at level WARNING, reports it.
void report(int level, const Refusal &refusal);

// 55000: tokens of the resource come from the other issuer.
Refusal other_issuer(const text *resource, bool external);
[[noreturn]] void raise_other_issuer(const text *resource, bool external);

// 55P03: another transaction that changes the resource has not ended in time.
[[noreturn]] void raise_resource_busy(const text *resource);

} // namespace fencing
