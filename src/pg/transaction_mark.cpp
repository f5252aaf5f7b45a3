// SPDX-License-Identifier: PostgreSQL
// transaction_mark.cpp: a counter of what the running transaction did, undone with its savepoints.

#include "pg/transaction_mark.h"

extern "C" {
#include "utils/memutils.h"
}

namespace fencing {

namespace {

void
undo(void *counter)
{
	--*static_cast<int *>(counter);
}

} // namespace

void
count_until_undone(int *counter)
{
	// A subtransaction's context outlives its RELEASE, as a child of its parent's.
	auto *callback = static_cast<MemoryContextCallback *>(
		MemoryContextAlloc(CurTransactionContext, sizeof(MemoryContextCallback)));

	callback->func = undo;
	callback->arg = counter;
	MemoryContextRegisterResetCallback(CurTransactionContext, callback);
	++*counter;
}

} // namespace fencing
