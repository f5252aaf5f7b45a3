// SPDX-License-Identifier: PostgreSQL
// fence.cpp: the fence of a resource, and what a transaction that changes it owes at its end.
//
// I3: the fence never goes down. advance() raises it; forget() alone drops it, and logs that.

#include "fence.h"

#include "arguments.h"
#include "errors.h"
#include "fence_table.h"
#include "pg/stop_point.h"
#include "pg/transaction_mark.h"
#include "resource_lock.h"
#include "settings.h"

extern "C" {
#include "access/xact.h"
#include "utils/builtins.h"
}

namespace fencing {

namespace {

int changes = 0;

extern "C" void
at_transaction_event(XactEvent event, void * /*argument*/)
{
	if (event == XACT_EVENT_PRE_COMMIT)
		FENCING_STOP_POINT("before_commit");
	if (event == XACT_EVENT_PRE_PREPARE && changes > 0)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("cannot PREPARE a transaction that has acquired, renewed, released, advanced, "
					   "pruned or forgotten a resource"),
				errhint("Commit the grant first, then work in another transaction.")));
}

// Equal is fine and changes nothing. Raises TK001, or 55000 for a resource issued here.
bool
needs_raise(const std::optional<FenceRow> &row, const text *resource, std::int64_t token)
{
	if (!row)
		return true;
	if (!row->external)
		raise_other_issuer(resource, /*external=*/false);
	if (token < row->token)
		raise_stale(resource, token, row->token);
	return token > row->token;
}

Outcome
raise_fence(const text *resource, std::int64_t token)
{
	std::optional<FenceRow> row = read_fence(resource);

	if (!needs_raise(row, resource, token))
		return Outcome::nothing;
	if (!row) {
		insert_fence(FenceRow{{}, resource, token, /*external=*/true, nullptr, nullptr, std::nullopt,
			std::nullopt, std::nullopt, false});
		return Outcome::written;
	}
	row->token = token;
	return update_fence(*row) == Written::done ? Outcome::written : Outcome::busy;
}

bool
forget(const text *resource)
{
	bool existed = false;

	change_resource(resource, Strength::exclusive, [&] {
		std::optional<FenceRow> row = read_fence(resource);

		if (!row)
			return Outcome::nothing;
		if (delete_fence(*row) != Written::done)
			return Outcome::busy;
		ereport(LOG,
			(errmsg("fencing: resource \"%s\" forgotten by \"%s\"", text_to_cstring(resource),
				 GetUserNameFromId(GetUserId(), /*noerr=*/true)),
				errdetail("Its fence was %lld.", static_cast<long long>(row->token))));
		existed = true;
		return Outcome::written;
	});
	return existed;
}

} // namespace

void
register_transaction_end()
{
	RegisterXactCallback(at_transaction_event, nullptr);
}

void
refuse_prepare()
{
	count_until_undone(&changes);
}

void
commit_durably()
{
	if (settings::durable_grants())
		ForceSyncCommit();
}

} // namespace fencing

FENCING_FUNCTION(fencing_advance)
{
	const text *resource = fencing::resource_argument(fcinfo, 0);
	std::int64_t token = fencing::token_argument(fcinfo, 1);

	PreventCommandIfReadOnly("fencing.advance()");
	fencing::refuse_prepare();
	if (fencing::needs_raise(fencing::read_fence(resource), resource, token)) {
		fencing::change_resource(resource, fencing::Strength::exclusive,
			[&] { return fencing::raise_fence(resource, token); });
		fencing::commit_durably();
	}
	PG_RETURN_INT64(token);
}

FENCING_FUNCTION(fencing_forget)
{
	const text *resource = fencing::resource_argument(fcinfo, 0);

	PreventCommandIfReadOnly("fencing.forget()");
	fencing::refuse_prepare();
	PG_RETURN_BOOL(fencing::forget(resource));
}

FENCING_FUNCTION(fencing_bind)
{
	fencing::raise_not_supported("fencing.bind()");
}

FENCING_FUNCTION(fencing_bound)
{
	fencing::raise_not_supported("fencing.bound()");
}
