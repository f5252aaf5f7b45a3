// SPDX-License-Identifier: PostgreSQL
// bindings.h: what the running transactions of all backends are bound to or have written with, for others to see. Kept in
// shared memory; without it nobody sees anything.
#pragma once

#include "pg/prelude.h"

#include "arguments.h"

extern "C" {
#include "port/atomics.h"
}

namespace fencing {

// So many claims of a transaction can be seen, its first ones.
constexpr int bindings_shown = 4;

struct Binding {
	std::int64_t token;
	bool external;
	char resource[longest_resource + 1];
};

// What one backend shows. It alone writes here, and says by an odd `change` that it is just doing so.
struct BackendBindings {
	pg_atomic_uint32 pid; // 0: free
	pg_atomic_uint32 change;
	Oid database;
	int count;
	Binding list[bindings_shown];
};
static_assert(survives_longjmp<BackendBindings>);

// A backend beyond these shows nothing.
struct Bindings {
	BackendBindings backends[1024];
};

void make_bindings(Bindings *bindings);

// Takes a place for this backend, if it has none yet and there is one. May raise.
void take_place_for_bindings();

// The place of this backend; null where it has none. Never raises.
BackendBindings *own_bindings();

// Around each change of one's own; nothing may be raised between them.
void begin_to_show(BackendBindings *own);
void show(BackendBindings *own, std::string_view resource, std::int64_t token, bool external);
void end_to_show(BackendBindings *own);

inline int
pid_of(const BackendBindings &copy)
{
	return static_cast<int>(copy.pid.value);
}

// A consistent copy of the next place of this database that shows anything, from `*place` on; false at the end.
bool next_bindings(Bindings *bindings, std::size_t *place, BackendBindings *copy);

// Whether that place has not changed since the copy was taken.
bool still_shows(Bindings *bindings, std::size_t place, const BackendBindings &copy);

} // namespace fencing
