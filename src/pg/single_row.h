// SPDX-License-Identifier: PostgreSQL
// single_row.h: set-returning functions that return one row or none.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "funcapi.h"
}

namespace fencing {

// Runs `body` at the first call of the set-returning function; it gets the row type and returns the
// row, or nothing for an empty set.
template <typename Body>
Datum
return_row_or_none(FunctionCallInfo fcinfo, Body body)
{
	static_assert(survives_longjmp<Body>);
	FuncCallContext *call;

	if (SRF_IS_FIRSTCALL()) {
		TupleDesc description = nullptr;

		call = SRF_FIRSTCALL_INIT();
		if (get_call_result_type(fcinfo, nullptr, &description) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");

		std::optional<Datum> row = body(BlessTupleDesc(description));

		if (row)
			SRF_RETURN_NEXT(call, *row);
	}
	call = SRF_PERCALL_SETUP();
	SRF_RETURN_DONE(call);
}

} // namespace fencing
