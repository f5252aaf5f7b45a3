// SPDX-License-Identifier: PostgreSQL
// rows.h: set-returning functions, a row at a call.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "funcapi.h"
}

namespace fencing {

// `start` makes the state of the set at its first call; `next` gets the row type and the state, and
// returns a row, or nothing at the end of the set.
template <typename State, typename Start, typename Next>
Datum
return_rows(FunctionCallInfo fcinfo, Start start, Next next)
{
	static_assert(survives_longjmp<State> && survives_longjmp<Start> && survives_longjmp<Next>);
	FuncCallContext *call;

	if (SRF_IS_FIRSTCALL()) {
		TupleDesc description = nullptr;

		call = SRF_FIRSTCALL_INIT();
		if (get_call_result_type(fcinfo, nullptr, &description) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");

		MemoryContext caller = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		auto *state = static_cast<State *>(palloc(sizeof(State)));

		call->tuple_desc = BlessTupleDesc(CreateTupleDescCopy(description));
		MemoryContextSwitchTo(caller);
		*state = start();
		call->user_fctx = state;
	}
	call = SRF_PERCALL_SETUP();

	std::optional<Datum> row = next(call->tuple_desc, static_cast<State *>(call->user_fctx));

	if (row)
		SRF_RETURN_NEXT(call, *row);
	SRF_RETURN_DONE(call);
}

// One row, which `body` returns at the first call, or none.
template <typename Body>
Datum
return_row_or_none(FunctionCallInfo fcinfo, Body body)
{
	return return_rows<bool>(
		fcinfo, [] { return false; },
		[&](TupleDesc description, bool *done) -> std::optional<Datum> {
			if (*done)
				return std::nullopt;
			*done = true;
			return body(description);
		});
}

} // namespace fencing
