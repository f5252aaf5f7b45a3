// SPDX-License-Identifier: PostgreSQL
// errors.cpp: the messages that are raised from several places.

#include "errors.h"

extern "C" {
#include "utils/builtins.h"
}

namespace fencing {

void
raise_stale(const text *resource, std::int64_t presented, std::int64_t current)
{
	ereport(ERROR,
		(errcode(ERRCODE_STALE_TOKEN),
			errmsg("stale fencing token for resource \"%s\"", text_to_cstring(resource)),
			errdetail("Presented token %lld, current token %lld.",
				static_cast<long long>(presented), static_cast<long long>(current)),
			errhint("%s", stale_hint)));
	pg_unreachable();
}

void
raise_other_issuer(const text *resource, bool external)
{
	ereport(ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			external ? errmsg("tokens of resource \"%s\" come from elsewhere",
						   text_to_cstring(resource))
					 : errmsg("tokens of resource \"%s\" are issued by fencing.acquire",
						   text_to_cstring(resource)),
			errdetail("A resource has one issuer."),
			external ? errhint("Raise its fence with fencing.advance, or use another resource name.")
					 : errhint("Take it with fencing.acquire, or use another resource name.")));
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

void
raise_not_supported(const char *what)
{
	ereport(ERROR,
		(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("%s is not supported yet", what)));
	pg_unreachable();
}

} // namespace fencing
