// SPDX-License-Identifier: PostgreSQL
// shared_memory.cpp: one area of memory that all backends of the server share.

#include "pg/shared_memory.h"

extern "C" {
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
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
	if (compat::has_named_segments && area == nullptr)
		area = compat::named_segment(registered.name, registered.size, registered.init);
	return area;
}

} // namespace fencing
