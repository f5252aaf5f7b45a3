// SPDX-License-Identifier: PostgreSQL
// bindings.cpp: what the running transactions are bound to, for others to see.

#include "bindings.h"

#include "shared_state.h"

extern "C" {
#include "miscadmin.h"
#include "storage/ipc.h"
}

namespace fencing {

namespace {

// A writer is done within some hundred bytes; so many looks fail only beside one that was stopped at that very place.
constexpr int most_looks = 1000;

BackendBindings *own = nullptr;
bool has_looked = false;

// The place goes to another backend.
extern "C" void
give_back(int /*code*/, Datum /*argument*/)
{
	if (own == nullptr)
		return;
	begin_to_show(own);
	end_to_show(own);
	pg_atomic_write_u32(&own->pid, 0);
	own = nullptr;
}

} // namespace

void
make_bindings(Bindings *bindings)
{
	for (BackendBindings &backend : bindings->backends) {
		pg_atomic_init_u32(&backend.pid, 0);
		pg_atomic_init_u32(&backend.change, 0);
		backend.count = 0;
	}
}

void
take_place_for_bindings()
{
	if (has_looked)
		return;

	SharedState *state = shared_state();

	if (state != nullptr)
		before_shmem_exit(give_back, Datum{0});
	has_looked = true;
	if (state == nullptr)
		return;

	Bindings *bindings = &state->bindings;

	for (std::size_t i = 0; i < lengthof(bindings->backends); i++) {
		BackendBindings *backend = &bindings->backends[(static_cast<std::size_t>(MyProcPid) + i) %
			lengthof(bindings->backends)];
		std::uint32_t nobody = 0;

		if (pg_atomic_read_u32(&backend->pid) == 0 &&
			pg_atomic_compare_exchange_u32(
				&backend->pid, &nobody, static_cast<std::uint32_t>(MyProcPid))) {
			own = backend;
			break;
		}
	}
}

BackendBindings *
own_bindings()
{
	return own;
}

void
begin_to_show(BackendBindings *backend)
{
	pg_atomic_write_u32(&backend->change, pg_atomic_read_u32(&backend->change) + 1);
	pg_write_barrier();
	backend->database = MyDatabaseId;
	backend->count = 0;
}

void
show(BackendBindings *backend, std::string_view resource, std::int64_t token, bool external)
{
	Binding *binding = &backend->list[backend->count++];

	binding->token = token;
	binding->external = external;
	memcpy(binding->resource, resource.data(), resource.size());
	binding->resource[resource.size()] = '\0';
}

void
end_to_show(BackendBindings *backend)
{
	pg_write_barrier();
	pg_atomic_write_u32(&backend->change, pg_atomic_read_u32(&backend->change) + 1);
}

bool
next_bindings(Bindings *bindings, std::size_t *place, BackendBindings *copy)
{
	while (*place < lengthof(bindings->backends)) {
		BackendBindings *backend = &bindings->backends[(*place)++];

		for (int look = 0; look < most_looks && pg_atomic_read_u32(&backend->pid) != 0; look++) {
			std::uint32_t before = pg_atomic_read_u32(&backend->change);

			pg_read_barrier();
			memcpy(copy, backend, sizeof(*copy));
			pg_read_barrier();
			if (before % 2 != 0 || pg_atomic_read_u32(&backend->change) != before)
				continue;
			if (copy->count > 0 && copy->database == MyDatabaseId)
				return true;
			break;
		}
	}
	return false;
}

bool
still_shows(Bindings *bindings, std::size_t place, const BackendBindings &copy)
{
	BackendBindings *backend = &bindings->backends[place];

	return pg_atomic_read_u32(&backend->pid) == copy.pid.value &&
		pg_atomic_read_u32(&backend->change) == copy.change.value;
}

} // namespace fencing
