// SPDX-License-Identifier: PostgreSQL
// token.cpp: issuing tokens. I1: never twice, each greater than all before. A token is durable
// before it is visible.
//
// Tokens come from a sequence, never from a counter in a row: a row's counter is issued again after
// ROLLBACK.

#include "token.h"

#include "arguments.h"
#include "core/verdict.h"
#include "epoch.h"
#include "pg/catalog.h"
#include "pg/sequence.h"

extern "C" {
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
}

namespace fencing {

namespace {

void
raise_unsafe(const char *detail, const char *hint)
{
	ereport(ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("sequence fencing.token_seq could issue a token twice"), errdetail("%s", detail),
			errhint("%s", hint)));
}

// Refuses options that somebody gave the sequence and that break I1, with the cure for all of them.
void
require_safe_options(const FormData_pg_sequence &options)
{
	StringInfoData faults;
	StringInfoData cure;

	if (options.seqtypid == INT8OID && options.seqincrement > 0 && options.seqmin > 0 &&
		options.seqcache == 1 && !options.seqcycle)
		return;

	initStringInfo(&faults);
	initStringInfo(&cure);
	if (options.seqtypid != INT8OID) {
		appendStringInfoString(&faults, " its type is not bigint,");
		appendStringInfoString(&cure, " AS bigint");
	}
	if (options.seqincrement <= 0) {
		appendStringInfoString(&faults, " it counts downwards,");
		appendStringInfoString(&cure, " INCREMENT BY 1");
	}
	if (options.seqmin <= 0) {
		appendStringInfoString(&faults, " it can issue values below 1,");
		appendStringInfoString(&cure, " MINVALUE 1");
	}
	if (options.seqcache != 1) {
		// A session would hand out the values it has cached after greater ones of other sessions.
		appendStringInfoString(&faults, " sessions cache its values,");
		appendStringInfoString(&cure, " CACHE 1");
	}
	if (options.seqcycle) {
		appendStringInfoString(&faults, " it starts again at its end,");
		appendStringInfoString(&cure, " NO CYCLE");
	}
	faults.data[faults.len - 1] = '.';
	faults.data[1] = static_cast<char>(pg_toupper(static_cast<unsigned char>(faults.data[1])));
	raise_unsafe(faults.data + 1, psprintf("ALTER SEQUENCE fencing.token_seq%s;", cure.data));
}

// A new sequence vanishes with ROLLBACK, and with it what fast_forward() has made of it; a token
// that was drawn from it does not.
void
require_safe(Relation sequence, const FormData_pg_sequence &options, bool draws)
{
	if (sequence->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		raise_unsafe("It is unlogged: a crash sets it back to its start.",
			"ALTER SEQUENCE fencing.token_seq SET LOGGED;");
	require_safe_options(options);
	// Its old storage, with the old position, comes back with ROLLBACK; the token does not.
	if (compat::has_new_storage(sequence) || (draws && compat::is_new(sequence)))
		raise_unsafe("It was created or changed by the running transaction, whose ROLLBACK would "
					 "bring its old position back.",
			"COMMIT its CREATE EXTENSION, ALTER SEQUENCE or TRUNCATE ... RESTART IDENTITY first.");
}

} // namespace

std::int64_t
draw_token(std::int64_t fence)
{
	Relation sequence = open_sequence(own_relation("token_seq"));
	FormData_pg_sequence options = sequence_options(sequence);

	require_safe(sequence, options, /*draws=*/true);
	if (fence >= options.seqmax)
		ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				errmsg("no token is left above the fence %lld", static_cast<long long>(fence))));

	std::int64_t epoch = enter_epoch(sequence, options, core::epoch_of(fence));
	std::int64_t token;
	std::int64_t below;

	while ((token = draw_value(sequence, options, core::end_of_epoch(epoch))) <=
		(below = Max(fence, core::start_of_epoch(epoch)))) {
		if (token == core::no_token) // used up, or somebody has begun the next
			epoch = enter_epoch(sequence, options, epoch + 1);
		else // somebody has set the sequence back: heal it, once for all resources below the fence
			(void)raise_sequence(sequence, options, below);
	}
	close_sequence(sequence);
	return token;
}

} // namespace fencing

FENCING_FUNCTION(fencing_next_token)
{
	PreventCommandIfReadOnly("fencing.next_token()");
	PreventCommandIfParallelMode("fencing.next_token()");
	PG_RETURN_INT64(fencing::draw_token(0));
}

FENCING_FUNCTION(fencing_fast_forward)
{
	fencing::require_argument(fcinfo, 0, "above");
	PreventCommandIfReadOnly("fencing.fast_forward()");
	PreventCommandIfParallelMode("fencing.fast_forward()");

	std::int64_t above = PG_GETARG_INT64(0);
	Relation sequence = fencing::open_sequence(fencing::own_relation("token_seq"));
	FormData_pg_sequence options = fencing::sequence_options(sequence);

	if (above < 0 || above >= options.seqmax)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("above must be 0 or more, and less than %lld",
					static_cast<long long>(options.seqmax))));
	fencing::require_safe(sequence, options, /*draws=*/false);
	(void)fencing::enter_epoch(sequence, options, fencing::core::epoch_of(above));
	std::int64_t exceeded = fencing::raise_sequence(sequence, options, above);

	// Also where another session has entered the epoch, and may not have come to say so.
	fencing::announce_epoch(sequence);

	fencing::close_sequence(sequence);
	PG_RETURN_INT64(exceeded);
}
