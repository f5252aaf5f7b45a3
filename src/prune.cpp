// SPDX-License-Identifier: PostgreSQL
// prune.cpp: prune: forgets resources whose lease ended long ago.
//
// I2 and I3 allow it: tokens come from one sequence, so the next grant is greater all the same, and until then
// every old token is refused as unissued.

#include "arguments.h"
#include "fence_table.h"
#include "resource_lock.h"
#include "seal.h"

namespace fencing {

namespace {

struct Pruning {
	std::int64_t idle;
	std::int64_t pruned;
};

// When the lease ended, or will end; nothing for a resource issued elsewhere.
std::optional<TimestampTz>
lease_end(const FenceRow &row)
{
	return row.released_at ? row.released_at : row.expires_at;
}

// Deleted under its lock, which is not waited for. The lock goes back at once, so that any number of
// resources can be pruned: to the end of the transaction the deleted row itself keeps acquire away,
// which finds it being changed.
void
prune_resource(const FenceRow &row, void *argument)
{
	auto *pruning = static_cast<Pruning *>(argument);
	std::optional<TimestampTz> end = lease_end(row);

	if (row.external || !end || GetCurrentTimestamp() - *end <= pruning->idle)
		return;

	ResourceLock lock = lock_of(row.resource);

	if (!lock_resource(lock, Strength::exclusive, 0))
		return;
	if (delete_fence(row) == Written::done)
		pruning->pruned++;
	unlock_resource(lock, Strength::exclusive);
}

} // namespace

} // namespace fencing

FENCING_FUNCTION(fencing_prune)
{
	fencing::Pruning pruning = {};

	pruning.idle = fencing::span_argument(fcinfo, 0, "idle");
	fencing::begin_change("fencing.prune()");
	fencing::scan_fences(fencing::prune_resource, &pruning);
	PG_RETURN_INT64(pruning.pruned);
}
