// SPDX-License-Identifier: PostgreSQL
// claims_shown.cpp: the first claims of the running transaction, for other backends to see.

#include "bindings.h"
#include "claims.h"

namespace fencing {

void
show_claims()
{
	BackendBindings *own = own_bindings();

	if (own == nullptr)
		return;
	begin_to_show(own);
	for (Claim *claim = next_counting(all_claims()); claim != nullptr && claim->shown;
		 claim = next_counting(claim->next)) {
		std::int64_t token = lowest_claimed(claim->top, /*enforced=*/true);

		if (token != 0)
			show(own, view_of(claim->resource), token, claim->top->external);
	}
	end_to_show(own);
}

} // namespace fencing
