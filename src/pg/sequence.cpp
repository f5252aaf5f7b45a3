// SPDX-License-Identifier: PostgreSQL
// sequence.cpp: draws from a sequence and raises it, both durable before they return.
//
// A sequence is one page with one tuple. nextval() writes WAL ahead for 32 values, and only the
// caller that wrote it, if anybody, waits for the flush: the others' values could be lost in a
// crash and be issued again. The page's LSN covers every value up to the logged one, also those of
// other sessions; so a flush up to it is what makes a value durable, and nearly always it is
// flushed already.

#include "pg/sequence.h"

extern "C" {
#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "commands/sequence.h"
#include "storage/bufmgr.h"
#include "utils/syscache.h"
}

namespace fencing {

namespace {

void
flush_page(Relation sequence)
{
	Buffer buffer = ReadBuffer(sequence, 0);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	XLogRecPtr lsn = PageGetLSN(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	XLogFlush(lsn);
}

Form_pg_sequence_data
position_on(Page page)
{
	ItemId item = PageGetItemId(page, FirstOffsetNumber);
	auto *header = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));

	return reinterpret_cast<Form_pg_sequence_data>(
		reinterpret_cast<char *>(header) + header->t_hoff);
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
draw_value(Relation sequence)
{
	std::int64_t value = nextval_internal(RelationGetRelid(sequence), /*check_permissions=*/false);

	flush_page(sequence);
	return value;
}

// Not setval(): to compare and to set must be one step, and here they are, since nextval() does
// its own under the same lock on the page. Nobody waits for a transaction that has drawn.
std::int64_t
raise_sequence(Relation sequence, std::int64_t above, std::int64_t increment)
{
	Buffer buffer = ReadBuffer(sequence, 0);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	const FormData_pg_sequence_data now = *position_on(BufferGetPage(buffer));
	std::int64_t issued = now.is_called ? now.last_value : now.last_value - increment;

	if (issued < above) {
		GenericXLogState *change = GenericXLogStart(sequence);
		Form_pg_sequence_data next = position_on(GenericXLogRegisterBuffer(change, buffer, 0));

		next->last_value = above;
		next->is_called = true;
		next->log_cnt = 0; // nothing is logged ahead: the next draw writes its own record
		(void) GenericXLogFinish(change);
		issued = above;
	}
	UnlockReleaseBuffer(buffer);

	// Also when nothing was raised: the value may come from a draw that is not flushed yet, and a
	// crash would take the promise back.
	flush_page(sequence);
	return issued;
}

} // namespace fencing
