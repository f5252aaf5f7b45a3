// SPDX-License-Identifier: PostgreSQL
// sequence.cpp: draws from a sequence and raises it, both durable before they return.
//
// A sequence is one page with one tuple. As nextval() does, a draw writes WAL ahead for many values,
// so that most draws write none; what replay restores is the position ahead. But nextval() lets only
// the caller that wrote the record wait for the flush, if anybody: the others' values could be lost
// in a crash and be issued again. Here everybody flushes up to the page's LSN, which covers every
// value up to the logged one; nearly always that is flushed already.
//
// Nobody would have to wait if the next record were written long before it is needed: so that is
// done, once the record before it is on disk, which covers the values up to then. log_cnt tells
// which of the two records a value needs: log_ahead or more are left only where the older one
// covers it still.
//
// nextval() itself gives its transaction an id when it writes WAL, whose commit record would be one
// more flush. A draw of ours needs none: it is durable before the transaction ends.

#include "pg/sequence.h"

#include "pg/stop_point.h"

extern "C" {
#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/syscache.h"
}

namespace fencing {

namespace {

// How many values a record covers beyond the one before it. A crash skips at most twice as many.
constexpr std::int64_t log_ahead = 256;

HeapTupleHeader
tuple_on(Page page)
{
	ItemId item = PageGetItemId(page, FirstOffsetNumber);

	return reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
}

Form_pg_sequence_data
position_on(Page page)
{
	HeapTupleHeader tuple = tuple_on(page);

	return reinterpret_cast<Form_pg_sequence_data>(reinterpret_cast<char *>(tuple) + tuple->t_hoff);
}

// Under our records the command id of the tuple, which nobody reads, tells of the page's LSN. Else
// what log_cnt counts is in no record: ALTER SEQUENCE copies it into new storage (SET LOGGED does,
// and AS its own type), CREATE DATABASE copies the page, and both log the position at which it
// stands.
CommandId
mark_of(Page page)
{
	return static_cast<CommandId>(PageGetLSN(page)) | 1;
}

// Dirty before the redo pointer is read: a checkpoint that begins after that finds the page dirty,
// and waits for its lock. One that found it clean would complete without what is done here, and with
// a redo pointer beyond what was logged ahead.
Buffer
lock_page(Relation sequence)
{
	Buffer buffer = ReadBuffer(sequence, 0);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	MarkBufferDirty(buffer);
	return buffer;
}

// Writes the position to the page and to WAL. The whole page, not what has changed on it: replay
// starts from a position ahead, to which a difference would not apply.
void
log_position(Relation sequence, Buffer buffer, std::int64_t last_value)
{
	GenericXLogState *change = GenericXLogStart(sequence);
	Form_pg_sequence_data position =
		position_on(GenericXLogRegisterBuffer(change, buffer, GENERIC_XLOG_FULL_IMAGE));

	position->last_value = last_value;
	position->is_called = true;
	position->log_cnt = 0;
	(void)GenericXLogFinish(change);

	Page page = BufferGetPage(buffer);

	HeapTupleHeaderSetCmin(tuple_on(page), mark_of(page));
}

// Whether replay would not restore a position at or above the next value: nothing is left of what
// was logged ahead, or it was logged before the checkpoint from which replay begins, or not by us.
bool
has_to_log(Page page)
{
	Form_pg_sequence_data position = position_on(page);

	return position->log_cnt < 1 || !position->is_called ||
		HeapTupleHeaderGetRawCommandId(tuple_on(page)) != mark_of(page) ||
		PageGetLSN(page) <= GetRedoRecPtr();
}

void
unlock_and_flush(Buffer buffer)
{
	XLogRecPtr lsn = PageGetLSN(BufferGetPage(buffer));

	UnlockReleaseBuffer(buffer);
	XLogFlush(lsn);
}

} // namespace

Relation
open_sequence(Oid sequence)
{
	return relation_open(sequence, RowExclusiveLock);
}

void
close_sequence(Relation sequence)
{
	relation_close(sequence, NoLock);
}

FormData_pg_sequence
sequence_options(Relation sequence)
{
	HeapTuple tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(RelationGetRelid(sequence)));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", RelationGetRelid(sequence));
	FormData_pg_sequence options = *reinterpret_cast<Form_pg_sequence>(GETSTRUCT(tuple));

	ReleaseSysCache(tuple);
	return options;
}

std::int64_t
sequence_value(Oid id)
{
	Relation sequence = relation_open(id, AccessShareLock);
	Buffer buffer = ReadBuffer(sequence, 0);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	std::int64_t value = position_on(BufferGetPage(buffer))->last_value;

	UnlockReleaseBuffer(buffer);
	relation_close(sequence, AccessShareLock);
	return value;
}

std::int64_t
draw_value(Relation sequence, const FormData_pg_sequence &options, std::int64_t most)
{
	Buffer buffer = lock_page(sequence);
	Page page = BufferGetPage(buffer);
	Form_pg_sequence_data position = position_on(page);
	std::int64_t value = position->last_value;

	if (position->is_called && __builtin_add_overflow(value, options.seqincrement, &value))
		value = PG_INT64_MAX;
	if (value > options.seqmax || (position->is_called && value <= position->last_value)) {
		UnlockReleaseBuffer(buffer);
		ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				errmsg("nextval: reached maximum value of sequence \"%s\" (%lld)",
					RelationGetRelationName(sequence), static_cast<long long>(options.seqmax))));
	}

	if (value > most) {
		UnlockReleaseBuffer(buffer);
		return 0;
	}

	std::int64_t limit = (Min(most, options.seqmax) - value) / options.seqincrement;
	std::int64_t covered = position->log_cnt - 1;
	std::int64_t ahead = covered;
	bool alone = has_to_log(page);

	if (alone) {
		ahead = Min(log_ahead - 1, limit);
	} else {
		FENCING_STOP_POINT("draw_covered");
		// Only when what covers this value and those up to `covered` is on disk: nobody waits for
		// it any more.
		if (covered < log_ahead && !XLogNeedsFlush(PageGetLSN(page)))
			ahead = Min(covered + log_ahead, limit);
	}
	if (alone || ahead != covered)
		log_position(sequence, buffer, value + ahead * options.seqincrement);
	// The page itself stands at the value; only WAL knows the position ahead.
	position->last_value = value;
	position->is_called = true;
	position->log_cnt = ahead;
	if (ahead < log_ahead)
		unlock_and_flush(buffer);
	else
		UnlockReleaseBuffer(buffer);
	return value;
}

// Not setval(): to compare and to set must be one step. Nobody waits for a transaction that has
// drawn.
std::int64_t
raise_sequence(Relation sequence, const FormData_pg_sequence &options, std::int64_t above)
{
	Buffer buffer = lock_page(sequence);
	Page page = BufferGetPage(buffer);
	Form_pg_sequence_data position = position_on(page);
	std::int64_t issued =
		position->is_called ? position->last_value : position->last_value - options.seqincrement;

	// Also when nothing is raised: nextval() may have come here without a record, and what was drawn
	// may not be flushed yet. A crash would take the promise back.
	if (issued < above || (position->is_called && has_to_log(page))) {
		issued = Max(issued, above);
		log_position(sequence, buffer, issued);
	}
	unlock_and_flush(buffer);
	return issued;
}

bool
change_value(
	Relation sequence, std::int64_t (*change)(std::int64_t value, void *argument), void *argument)
{
	Buffer buffer = lock_page(sequence);
	std::int64_t before = position_on(BufferGetPage(buffer))->last_value;
	std::int64_t after = change(before, argument);

	if (after != before)
		log_position(sequence, buffer, after);
	// Also when somebody else has changed it: what follows from it must not outlive it.
	unlock_and_flush(buffer);
	return after != before;
}

} // namespace fencing
