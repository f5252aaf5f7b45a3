// SPDX-License-Identifier: PostgreSQL
// shared_memory.cpp: one area of memory that all backends of the server share.

#include "pg/shared_memory.h"

extern "C" {
#include "access/xact.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
}

namespace fencing {

namespace {

struct Registered {
	const char *name;
	std::size_t size;
	void (*init)(void *area);
};

Registered registered = {};
void *area = nullptr;
bool has_tried = false; // to attach it
shmem_startup_hook_type next_startup = nullptr;

// In the postmaster, once for each start of the server; backends inherit the pointer.
extern "C" void
startup()
{
	bool found;

	if (next_startup != nullptr)
		next_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	area = ShmemInitStruct(registered.name, registered.size, &found);
	if (!found)
		registered.init(area);
	LWLockRelease(AddinShmemInitLock);
}

// Where the system has no memory for it (a small /dev/shm), the session goes on without, and says so once. In a
// subtransaction: the error leaves locks of the server's registry behind.
void *
attach()
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	void *volatile segment = nullptr;

	BeginInternalSubTransaction(nullptr);
	PG_TRY();
	{
		segment = compat::named_segment(registered.name, registered.size, registered.init);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		ErrorData *error = CopyErrorData();

		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_INSUFFICIENT_RESOURCES)
			ReThrowError(error);
		ereport(LOG,
			(errmsg("fencing: this session goes on without shared memory"),
				errdetail("%s", error->message)));
		FreeErrorData(error);
	}
	PG_END_TRY();
	return segment;
}

} // namespace

void
register_shared_memory(const char *name, std::size_t size, void (*init)(void *area))
{
	registered = {name, size, init};
	if (compat::has_named_segments || !process_shared_preload_libraries_in_progress)
		return;
	compat::request_shared_memory(size);
	next_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

void *
shared_memory()
{
	if (compat::has_named_segments && !has_tried) {
		area = attach();
		has_tried = true;
	}
	return area;
}

} // namespace fencing
