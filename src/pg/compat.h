// SPDX-License-Identifier: PostgreSQL
// compat.h: every difference between the supported servers, 14 to 19, and nothing else.
//
// The code is written against the newest API; an older server gets the shim. Included by prelude.h.
#pragma once

#if PG_VERSION_NUM < 140000
#error "fencing needs PostgreSQL 14 or later"
#endif

extern "C" {
#include "access/genam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#if PG_VERSION_NUM >= 150000
// GetXLogReplayRecPtr() moved there from xlog.h (commit 70e81861fa).
#include "access/xlogrecovery.h"
#endif
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"
#if PG_VERSION_NUM >= 160000
// Moved out of postgres.h by commit d952373a98.
#include "varatt.h"
#endif
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
}

namespace fencing::compat {

// 17 moved the local transaction id into PGPROC.vxid (commit ab355e3a88).
inline LocalTransactionId
current_lxid()
{
#if PG_VERSION_NUM >= 170000
	return MyProc->vxid.lxid;
#else
	return MyProc->lxid;
#endif
}

// Whether the relation was made by the running transaction: its ROLLBACK leaves nothing of it.
inline bool
is_new(Relation relation)
{
	return relation->rd_createSubid != InvalidSubTransactionId;
}

// Whether the running transaction has given the relation new storage: its ROLLBACK brings the old
// one back. 16 speaks of relfilelocators (commit b0a55e4329).
inline bool
has_new_storage(Relation relation)
{
#if PG_VERSION_NUM >= 160000
	return relation->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
#else
	return relation->rd_firstRelfilenodeSubid != InvalidSubTransactionId;
#endif
}

// The timeline of the WAL that the server writes or, on a standby, has replayed last.
// pg_control_checkpoint() is behind until the next checkpoint. 15 keeps the timeline out of a global
// variable, which RecoveryInProgress() sets (commit 4a92a1c3d1).
inline TimeLineID
running_timeline()
{
	TimeLineID timeline;

	if (RecoveryInProgress()) {
		(void)GetXLogReplayRecPtr(&timeline);
		return timeline;
	}
#if PG_VERSION_NUM >= 150000
	return GetWALInsertionTimeLine();
#else
	return ThisTimeLineID;
#endif
}

// 16 has one privilege check for every kind of object (commit c727f511bd).
inline bool
may_execute(Oid function, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK;
#else
	return pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

// 16 has one ownership check for every kind of object (commit afbfc02983).
inline bool
owns_relation(Oid relation, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relation, role);
#else
	return pg_class_ownercheck(relation, role);
#endif
}

// The memory of a check hook's "extra": malloc before 16 (commit 407b50f2d4).
inline void *
guc_extra_alloc(std::size_t size)
{
#if PG_VERSION_NUM >= 160000
	return guc_malloc(LOG, size);
#else
	return malloc(size);
#endif
}

inline void
reserve_guc_prefix(const char *prefix)
{
#if PG_VERSION_NUM >= 150000
	MarkGUCPrefixReserved(prefix);
#else
	EmitWarningsOnPlaceholders(prefix);
#endif
}

// A setting of ours by its name; it exists. 16 made find_option() public and turned the array of
// settings into a hash table (commit 3057465acf).
inline struct config_generic *
find_setting(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, false, ERROR);
#else
	struct config_generic **all = get_guc_variables();
	int count = GetNumConfigOptions();

	for (int i = 0; i < count; i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return nullptr;
#endif
}

// The reset value's extra stands in the generic part from 19 on (commit a13833c35f).
inline void *
setting_reset_extra(const struct config_generic *setting)
{
#if PG_VERSION_NUM >= 190000
	return setting->reset_extra;
#else
	return reinterpret_cast<const struct config_string *>(setting)->reset_extra;
#endif
}

// Whether the server lets a foreign table have a TRUNCATE trigger (commit 3b00a944a9).
constexpr bool foreign_truncate_triggers = PG_VERSION_NUM >= 160000;

// 17 gives named segments of shared memory to whoever asks (commit 8b2bcf3f28); before, only a library that is
// preloaded gets any, and 15 has a hook to ask for it (commit 4f2400cb3f).
constexpr bool has_named_segments = PG_VERSION_NUM >= 170000;

#if PG_VERSION_NUM >= 170000

inline void
request_shared_memory(std::size_t /*size*/)
{
}

// 19 hands the callback an argument.
inline void *
named_segment(const char *name, std::size_t size, void (*init)(void *area))
{
	bool found;

#if PG_VERSION_NUM >= 190000
	return GetNamedDSMSegment(
		name, size, [](void *area, void *call) { (*static_cast<void (**)(void *)>(call))(area); },
		&found, &init);
#else
	return GetNamedDSMSegment(name, size, init, &found);
#endif
}

#else

inline void *
named_segment(const char * /*name*/, std::size_t /*size*/, void (* /*init*/)(void *area))
{
	return nullptr;
}

#if PG_VERSION_NUM >= 150000
inline std::size_t requested_size = 0;
inline shmem_request_hook_type next_request = nullptr;

inline void
request_shared_memory(std::size_t size)
{
	requested_size = size;
	next_request = shmem_request_hook;
	shmem_request_hook = [] {
		if (next_request != nullptr)
			next_request();
		RequestAddinShmemSpace(requested_size);
	};
}
#else
inline void
request_shared_memory(std::size_t size)
{
	RequestAddinShmemSpace(size);
}
#endif

#endif

// 17 has infinite intervals (commit 519fc1bd9e).
inline bool
is_infinite([[maybe_unused]] const Interval *span)
{
#if PG_VERSION_NUM >= 170000
	return INTERVAL_NOT_FINITE(span);
#else
	return false;
#endif
}

// Whether the backend does nothing inside a transaction, as pg_stat_activity says. 16 has another name for the look-up.
inline bool
is_idle_in_transaction(int pid)
{
	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++) {
#if PG_VERSION_NUM >= 160000
		const PgBackendStatus &backend = pgstat_get_local_beentry_by_index(i)->backendStatus;
#else
		const PgBackendStatus &backend = pgstat_fetch_stat_local_beentry(i)->backendStatus;
#endif

		if (backend.st_procpid == pid)
			return backend.st_state == STATE_IDLEINTRANSACTION ||
				backend.st_state == STATE_IDLEINTRANSACTION_ABORTED;
	}
	return false;
}

// 15 has a function instead of a macro that leaves it in the relation (commit f10f0ae420).
inline SMgrRelation
storage_of(Relation relation)
{
#if PG_VERSION_NUM >= 150000
	return RelationGetSmgr(relation);
#else
	RelationOpenSmgr(relation);
	return relation->rd_smgr;
#endif
}

// 18 asks whether a deferrable key will do (commit 3d351d916b).
inline Oid
primary_key_index(Relation relation)
{
#if PG_VERSION_NUM >= 180000
	return RelationGetPrimaryKeyIndex(relation, /*deferrable_ok=*/false);
#else
	return RelationGetPrimaryKeyIndex(relation);
#endif
}

// A scan with one key. 18 counts index searches for EXPLAIN (commit 0fbceae841), 19 has options.
inline IndexScanDesc
begin_index_scan(Relation relation, Relation index, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(relation, index, snapshot, nullptr, 1, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(relation, index, snapshot, nullptr, 1, 0);
#else
	return index_beginscan(relation, index, snapshot, 1, 0);
#endif
}

// 16 lets an update skip the indexes that summarize blocks (commit 19d8e2308b).
#if PG_VERSION_NUM >= 160000
using UpdateIndexes = TU_UpdateIndexes;
constexpr UpdateIndexes no_update_indexes = TU_None;
#else
using UpdateIndexes = bool;
constexpr UpdateIndexes no_update_indexes = false;
#endif

// Never waits for another transaction: the caller looks at the result.
inline TM_Result
tuple_update(Relation relation, ItemPointer tid, TupleTableSlot *slot, Snapshot snapshot,
	TM_FailureData *failure, UpdateIndexes *update_indexes)
{
	LockTupleMode lock_mode;

	return table_tuple_update(relation, tid, slot, GetCurrentCommandId(true),
#if PG_VERSION_NUM >= 190000
		/*options=*/0,
#endif
		snapshot, InvalidSnapshot, /*wait=*/false, failure, &lock_mode, update_indexes);
}

inline TM_Result
tuple_delete(Relation relation, ItemPointer tid, Snapshot snapshot, TM_FailureData *failure)
{
#if PG_VERSION_NUM >= 190000
	return table_tuple_delete(relation, tid, GetCurrentCommandId(true), /*options=*/0, snapshot,
		InvalidSnapshot, /*wait=*/false, failure);
#else
	return table_tuple_delete(relation, tid, GetCurrentCommandId(true), snapshot, InvalidSnapshot,
		/*wait=*/false, failure, /*changingPart=*/false);
#endif
}

// The entries of a new row version, for an insert (updated = no_update_indexes) or an update.
inline void
insert_index_entries(ResultRelInfo *result, EState *estate, TupleTableSlot *slot, bool is_update,
	UpdateIndexes updated)
{
#if PG_VERSION_NUM >= 190000
	uint32 flags =
		(is_update ? EIIT_IS_UPDATE : 0) | (updated == TU_Summarizing ? EIIT_ONLY_SUMMARIZING : 0);

	(void)ExecInsertIndexTuples(result, estate, flags, slot, NIL, nullptr);
#elif PG_VERSION_NUM >= 160000
	(void)ExecInsertIndexTuples(
		result, slot, estate, is_update, false, nullptr, NIL, updated == TU_Summarizing);
#else
	(void)updated;
	(void)ExecInsertIndexTuples(result, slot, estate, is_update, false, nullptr, NIL);
#endif
}

} // namespace fencing::compat
