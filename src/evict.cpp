// SPDX-License-Identifier: PostgreSQL
// evict.cpp: evict: ends the backends whose transactions hold a stale token, so that their row locks go.

#include "arguments.h"
#include "core/verdict.h"
#include "fence.h"
#include "fence_table.h"
#include "pg/rows.h"
#include "shared_state.h"

extern "C" {
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
}

namespace fencing {

namespace {

// So long is waited for the end of each; one that is stopped, or stuck in a system call, does not obey.
constexpr std::int64_t longest_end_ms = 5000;

struct Cursor {
	std::size_t place;
	BackendBindings backend;
	int next; // of its list
};

// The next binding of another backend.
const Binding *
next_binding(Cursor *cursor)
{
	Bindings *bindings = &shared_state()->bindings;

	for (;;) {
		if (cursor->next < cursor->backend.count)
			return &cursor->backend.list[cursor->next++];
		cursor->next = 0;
		do {
			CHECK_FOR_INTERRUPTS();
			if (!next_bindings(bindings, &cursor->place, &cursor->backend))
				return nullptr;
		} while (pid_of(cursor->backend) == MyProcPid);
	}
}

// Whether a greater token has come. A token that looks unissued is not lost: its grant may be open in that very
// transaction, or the resource was pruned.
bool
is_lost(const Binding *binding)
{
	core::FenceState state = state_of(read_fence(cstring_to_text(binding->resource)), nullptr);

	return core::judge_resource(state, binding->external, binding->token) == core::Verdict::stale;
}

// With the caller's rights: the server refuses to end whom the caller may not end. Logged is what was done.
bool
end_backend(int pid, const Binding *binding)
{
	bool ended = DatumGetBool(DirectFunctionCall2(
		pg_terminate_backend, Int32GetDatum(pid), Int64GetDatum(longest_end_ms)));

	ereport(LOG,
		(errmsg("fencing: process %d is evicted from resource \"%s\" by \"%s\"", pid,
			 binding->resource, GetUserNameFromId(GetUserId(), /*noerr=*/false)),
			errdetail("Its token is %lld.", static_cast<long long>(binding->token))));
	return ended;
}

} // namespace

} // namespace fencing

FENCING_FUNCTION(fencing_get_bindings)
{
	return fencing::return_rows<fencing::Cursor>(
		fcinfo, [] { return fencing::Cursor{}; },
		[](TupleDesc description, fencing::Cursor *cursor) -> std::optional<Datum> {
			if (fencing::shared_state() == nullptr)
				return std::nullopt;

			const fencing::Binding *binding = fencing::next_binding(cursor);

			if (binding == nullptr)
				return std::nullopt;

			Datum values[5] = {Int32GetDatum(fencing::pid_of(cursor->backend)),
				CStringGetTextDatum(binding->resource), Int64GetDatum(binding->token),
				BoolGetDatum(fencing::is_lost(binding)),
				BoolGetDatum(
					fencing::compat::is_idle_in_transaction(fencing::pid_of(cursor->backend)))};
			bool nulls[5] = {};

			return HeapTupleGetDatum(heap_form_tuple(description, values, nulls));
		});
}

FENCING_FUNCTION(fencing_evict)
{
	const text *resource = fencing::resource_argument(fcinfo, 0);

	PreventCommandDuringRecovery("fencing.evict()");
	fencing::require_shared_state("fencing.evict()");
	return fencing::return_rows<fencing::Cursor>(
		fcinfo, [] { return fencing::Cursor{}; },
		[&](TupleDesc description, fencing::Cursor *cursor) -> std::optional<Datum> {
			while (const fencing::Binding *binding = fencing::next_binding(cursor)) {
				int pid = fencing::pid_of(cursor->backend);

				if (fencing::view_of(resource) != binding->resource || !fencing::is_lost(binding))
					continue;
				// To read the fence may have taken time, in which that transaction has ended.
				if (!fencing::still_shows(
						&fencing::shared_state()->bindings, cursor->place - 1, cursor->backend)) {
					cursor->place--;
					cursor->next = cursor->backend.count;
					continue;
				}
				bool ended = fencing::end_backend(pid, binding);
				Datum values[3] = {
					Int32GetDatum(pid), Int64GetDatum(binding->token), BoolGetDatum(ended)};
				bool nulls[3] = {};

				return HeapTupleGetDatum(heap_form_tuple(description, values, nulls));
			}
			return std::nullopt;
		});
}
