// SPDX-License-Identifier: PostgreSQL
// resource_lock.cpp: who may change the fence of a resource, and who queues for it.

#include "resource_lock.h"

#include "pg/catalog.h"
#include "wakeup.h"

extern "C" {
#include "common/hashfn.h"
#include "miscadmin.h"
}

namespace fencing {

namespace {

// Callers that do not wait keep out those that do, and are kept out by them, but not by each other.
constexpr LOCKMODE
queue_mode(bool alone)
{
	return alone ? RowShareLock : ExclusiveLock;
}

LOCKTAG
tag_of(Oid fences, std::uint32_t number, std::uint16_t kind)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, fences, number, kind);
	return tag;
}

} // namespace

ResourceLock
lock_of(const text *resource)
{
	return lock_of(own_relation("fence"), resource);
}

ResourceLock
lock_of(Oid fences, const text *resource)
{
	std::string_view name = view_of(resource);
	std::uint64_t hash = hash_bytes_extended(
		reinterpret_cast<const unsigned char *>(name.data()), static_cast<int>(name.size()), 0);
	auto number = static_cast<std::uint32_t>(hash);
	// The small part of a tag tells the kinds apart: 0 a bucket, odd a resource, even its queue.
	auto more = static_cast<std::uint16_t>((hash >> 32) & 0x7ffe);

	return {tag_of(fences, number % resource_buckets, 0),
		tag_of(fences, number, static_cast<std::uint16_t>(more | 1)),
		tag_of(fences, number, static_cast<std::uint16_t>(more + 2))};
}

bool
lock_resource(const ResourceLock &lock, Strength strength, int timeout_ms)
{
	LockModes modes = modes_of(strength);
	TimestampTz deadline =
		TimestampTzPlusMilliseconds(timeout_ms > 0 ? GetCurrentTimestamp() : 0, timeout_ms);

	if (!lock_within(lock.bucket, modes.bucket, timeout_ms))
		return false;
	if (lock_within(lock.exact, modes.exact, timeout_ms > 0 ? milliseconds_until(deadline) : 0)) {
		if (strength == Strength::exclusive)
			wake_at_end(lock.bucket.locktag_field3);
		return true;
	}
	unlock(lock.bucket, modes.bucket);
	return false;
}

void
unlock_resource(const ResourceLock &lock, Strength strength)
{
	unlock(lock.exact, modes_of(strength).exact);
	unlock(lock.bucket, modes_of(strength).bucket);
}

void
wait_for_change(const ResourceLock &lock, int milliseconds)
{
	wait_for_change(lock.bucket.locktag_field3, milliseconds);
}

bool
join_queue(const ResourceLock &lock, bool alone, int timeout_ms)
{
	return lock_within(lock.queue, queue_mode(alone), alone ? 0 : timeout_ms);
}

void
leave_queue(const ResourceLock &lock, bool alone)
{
	unlock(lock.queue, queue_mode(alone));
}

} // namespace fencing
