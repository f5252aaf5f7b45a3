// SPDX-License-Identifier: PostgreSQL
// errors.cpp: the messages that are raised from several places.

#include "errors.h"

#include "refusal_log.h"

extern "C" {
#include "utils/builtins.h"
}

namespace fencing {

int
describe(const Refusal &refusal)
{
	errcode(refusal.sqlstate);
	errmsg_internal("%s", refusal.message);
	if (refusal.detail != nullptr)
		errdetail_internal("%s", refusal.detail);
	if (refusal.hint != nullptr)
		errhint("%s", refusal.hint);
	return 0;
}

void
report(int level, const Refusal &refusal)
{
	record_refusal(refusal, /*relation=*/nullptr, level < ERROR);
	ereport(level, (describe(refusal)));
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
