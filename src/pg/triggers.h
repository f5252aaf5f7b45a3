// SPDX-License-Identifier: PostgreSQL
// triggers.h: a trigger as the catalog has it.
#pragma once

#include "pg/prelude.h"

namespace fencing {

struct StoredTrigger {
	Oid function;
	std::int16_t type;
	char enabled;
	bool is_clone;          // made by the server for a partition; goes with its parent's
	bool plain;             // no column list, no WHEN condition
	const bytea *arguments; // each followed by a zero byte
};
static_assert(survives_longjmp<StoredTrigger>);

// A copy; nothing when the relation has no trigger of that name.
std::optional<StoredTrigger> find_trigger(Oid relation, const char *name);

} // namespace fencing
