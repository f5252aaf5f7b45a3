// SPDX-License-Identifier: PostgreSQL
// epoch.cpp: which epoch the database is in.
//
// The record of the identity under which the database issued last must survive the caller's ROLLBACK
// and be seen by everybody at once, so it is no table row: it is the value of a second sequence.

#include "epoch.h"

#include "pg/catalog.h"
#include "pg/lock.h"
#include "pg/stop_point.h"
#include "resource_lock.h"

extern "C" {
#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/sinval.h"
#include "utils/inval.h"
}

namespace fencing {

namespace {

// What this backend has worked out. A standby's backend remembers nothing: it may live to see the
// promotion.
struct Known {
	bool current; // `epoch` is right
	bool entered; // and the sequence of tokens stands in it
	Oid sequence; // of tokens
	std::int64_t epoch;
};

Known known = {};

extern "C" void
forget_epoch(Datum /*argument*/, Oid relation)
{
	if (relation == known.sequence || relation == InvalidOid)
		known = {};
}

std::uint64_t
identity_of(Oid tokens)
{
	struct {
		std::uint64_t system;
		std::uint32_t database;
		std::uint32_t sequence;
	} identity = {GetSystemIdentifier(), MyDatabaseId, tokens};

	return hash_bytes_extended(
		reinterpret_cast<const unsigned char *>(&identity), sizeof(identity), 0);
}

// What the record becomes, under the lock of its page.
struct Entry {
	std::uint64_t identity;
	std::int64_t timeline;
	std::int64_t last_token;
	std::int64_t at_least;
	std::int64_t last;  // epoch that the sequence can reach
	std::int64_t epoch; // out
};

// To compare and to set must be one step: somebody may have entered a later epoch meanwhile. Returns
// the record as it is when the epoch is out of reach.
std::int64_t
record_epoch(std::int64_t record, void *argument)
{
	auto *entry = static_cast<Entry *>(argument);

	entry->epoch = Max(entry->at_least,
		core::target_epoch(
			core::unpack(record), entry->identity, entry->timeline, entry->last_token));
	if (entry->epoch > entry->last)
		return record;
	return core::pack({entry->identity, entry->epoch - entry->timeline});
}

} // namespace

void
register_epoch()
{
	CacheRegisterRelcacheCallback(forget_epoch, Datum(0));
}

std::int64_t
current_epoch()
{
	// A transaction that takes no lock anew would not hear of an epoch that another session begins.
	AcceptInvalidationMessages();
	if (known.current)
		return known.epoch;

	// Before the timeline is read: when recovery ends in between, what it was says nothing.
	bool standby = RecoveryInProgress();
	Oid tokens = own_relation("token_seq");
	Oid origin = own_relation("origin_seq");
	std::int64_t last_token = 0;
	std::int64_t record = 0;

	// Should somebody alter a sequence by hand, not even a COMMIT waits for long. The tokens first:
	// an epoch is recorded before they enter it.
	with_lock_timeout(within_lock_timeout(longest_wait_ms), [&] {
		last_token = sequence_value(tokens);
		record = sequence_value(origin);
	});

	std::int64_t epoch = core::target_epoch(
		core::unpack(record), identity_of(tokens), compat::running_timeline(), last_token);

	if (!standby)
		known = {true, false, tokens, epoch};
	return epoch;
}

// At once and not at COMMIT: what an epoch follows from is not transactional.
void
announce_epoch(Relation tokens)
{
	SharedInvalidationMessage message = {};

	message.rc.id = SHAREDINVALRELCACHE_ID;
	message.rc.dbId = MyDatabaseId;
	message.rc.relId = RelationGetRelid(tokens);
	SendSharedInvalidMessages(&message, 1);
}

std::int64_t
enter_epoch(Relation tokens, const FormData_pg_sequence &options, std::int64_t at_least)
{
	Oid sequence = RelationGetRelid(tokens);

	AcceptInvalidationMessages();
	if (known.entered && known.sequence == sequence && known.epoch >= at_least)
		return known.epoch;

	Entry entry = {identity_of(sequence), compat::running_timeline(), sequence_value(sequence),
		at_least, core::epoch_of(options.seqmax), 0};
	Relation origin = open_sequence(own_relation("origin_seq"));

	// What is recorded would be lost, and the epoch entered again by who does not know of it.
	if (origin->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("sequence fencing.origin_seq could lose the epoch"),
				errdetail("It is unlogged: a crash sets it back to its start."),
				errhint("ALTER SEQUENCE fencing.origin_seq SET LOGGED;")));
	if (compat::has_new_storage(origin))
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("sequence fencing.origin_seq could lose the epoch"),
				errdetail(
					"It was changed by the running transaction, whose ROLLBACK would bring its "
					"old position back."),
				errhint("COMMIT its ALTER SEQUENCE or TRUNCATE ... RESTART IDENTITY first.")));
	// The record first: should a crash come between the two, the next life of the server finds the
	// same epoch in it, and moves the sequence there.
	bool changed = change_value(origin, record_epoch, &entry);

	close_sequence(origin);
	if (changed)
		announce_epoch(tokens);
	if (entry.epoch > entry.last)
		ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				errmsg("sequence fencing.token_seq ends before epoch %lld",
					static_cast<long long>(entry.epoch)),
				errdetail("Its maximum is %lld; the tokens of the epoch are greater than %lld.",
					static_cast<long long>(options.seqmax),
					static_cast<long long>(core::start_of_epoch(entry.epoch))),
				entry.epoch <= core::last_epoch
					? errhint("ALTER SEQUENCE fencing.token_seq NO MAXVALUE;")
					: 0));
	FENCING_STOP_POINT("epoch_recorded");
	(void)raise_sequence(tokens, options, core::start_of_epoch(entry.epoch));
	if (core::epoch_of(entry.last_token) < entry.epoch)
		ereport(LOG,
			(errmsg(
				 "fencing: tokens are issued in epoch %lld", static_cast<long long>(entry.epoch)),
				errdetail("Every token of an earlier epoch has ended.")));
	known = {true, true, sequence, entry.epoch};
	return entry.epoch;
}

} // namespace fencing

// The first record, for the install script, which drops the function again: an epoch that follows
// from the timeline alone, so that the first tokens of a new cluster are 1, 2, 3. The sequence enters
// it at once: a copy that is made before the first draw reckons from where the sequence stands.
FENCING_FUNCTION(fencing_record_origin)
{
	std::int64_t record = fencing::core::pack(
		{fencing::identity_of(fencing::own_relation("token_seq")), fencing::core::fresh_lead});
	Relation origin = fencing::open_sequence(fencing::own_relation("origin_seq"));

	(void)fencing::change_value(
		origin, [](std::int64_t, void *argument) { return *static_cast<std::int64_t *>(argument); },
		&record);
	fencing::close_sequence(origin);

	Relation tokens = fencing::open_sequence(fencing::own_relation("token_seq"));

	(void)fencing::raise_sequence(tokens, fencing::sequence_options(tokens),
		fencing::core::start_of_epoch(
			fencing::core::fresh_lead + fencing::compat::running_timeline()));
	fencing::close_sequence(tokens);
	PG_RETURN_VOID();
}

FENCING_FUNCTION(fencing_epoch)
{
	PG_RETURN_INT64(fencing::current_epoch());
}
