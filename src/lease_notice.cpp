// SPDX-License-Identifier: PostgreSQL
// lease_notice.cpp: who is told of a change of hands: the server's log, and whoever listens.

#include "lease_notice.h"

#include "settings.h"

extern "C" {
#include "commands/async.h"
#include "utils/builtins.h"
}

namespace fencing {

namespace {

constexpr const char *channel = "fencing";

const char *
name_of_holder(const FenceRow &lease)
{
	return lease.holder == nullptr ? "without a label"
								   : psprintf("\"%s\"", text_to_cstring(lease.holder));
}

} // namespace

void
log_takeover(const FenceRow &taken, const FenceRow &granted)
{
	ereport(LOG,
		(errmsg("fencing: lease of resource \"%s\" taken over by \"%s\"",
			 text_to_cstring(granted.resource), GetUserNameFromId(GetUserId(), /*noerr=*/false)),
			errdetail("Token %lld of holder %s is followed by token %lld of holder %s.",
				static_cast<long long>(taken.token), name_of_holder(taken),
				static_cast<long long>(granted.token), name_of_holder(granted))));
}

// A payload must stay below 8000 bytes. A resource has 512 at most; a holder has no limit, so it
// is left out. The resource comes last, since it can contain anything.
void
notify_lease(const char *event, std::int64_t token, const text *resource)
{
	if (settings::notify())
		Async_Notify(channel,
			psprintf(
				"%s %lld %s", event, static_cast<long long>(token), text_to_cstring(resource)));
}

} // namespace fencing
