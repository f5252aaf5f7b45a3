// SPDX-License-Identifier: PostgreSQL
// errors.cpp: the messages that are raised from several places.

#include "errors.h"

extern "C" {
#include "utils/builtins.h"
}

namespace fencing {

void
report(int level, const Refusal &refusal)
{
	ereport(level,
		(errcode(refusal.sqlstate), errmsg_internal("%s", refusal.message),
			refusal.detail == nullptr ? 0 : errdetail_internal("%s", refusal.detail),
			refusal.hint == nullptr ? 0 : errhint("%s", refusal.hint)));
}

Refusal
other_issuer(const text *resource, bool external)
{
	return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		psprintf(external ? "tokens of resource \"%s\" come from elsewhere"
						  : "tokens of resource \"%s\" are issued by fencing.acquire",
			text_to_cstring(resource)),
		"A resource has one issuer.",
		external ? "Raise its fence with fencing.advance, or use another resource name."
				 : "Take it with fencing.acquire, or use another resource name."};
}

void
raise_other_issuer(const text *resource, bool external)
{
	report(ERROR, other_issuer(resource, external));
	pg_unreachable();
}

void
raise_resource_busy(const text *resource)
{
	ereport(ERROR,
		(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			errmsg("could not lock resource \"%s\"", text_to_cstring(resource)),
			errdetail("Another transaction that uses the resource has not ended."),
			errhint("Try again; a grant should be committed before the work begins.")));
	pg_unreachable();
}

} // namespace fencing
