// SPDX-License-Identifier: PostgreSQL
// fence.cpp: the fence of a resource: judged, raised, dropped, bound to.
//
// I3: the fence never goes down. advance() raises it; forget() alone drops it, and logs that.

#include "fence.h"

#include "arguments.h"
#include "claims.h"
#include "epoch.h"
#include "pg/rows.h"
#include "resource_lock.h"
#include "seal.h"
#include "settings.h"

extern "C" {
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "utils/builtins.h"
}

namespace fencing {

namespace {

// Presented and current token, and who holds the resource since when.
const char *
tokens_of(std::int64_t presented, core::FenceState state, const std::optional<FenceRow> &row)
{
	auto given = static_cast<long long>(presented);
	auto current = static_cast<long long>(state.fence);

	if (state.fence == core::no_token)
		return psprintf("Presented token %lld, and the resource is unknown.", given);
	if (!row || !row->acquired_at)
		return psprintf("Presented token %lld, current token %lld.", given, current);

	const char *since = pstrdup(timestamptz_to_str(*row->acquired_at));

	if (row->holder == nullptr)
		return psprintf(
			"Presented token %lld, current token %lld, granted at %s.", given, current, since);
	return psprintf("Presented token %lld, current token %lld, granted to \"%s\" at %s.", given,
		current, text_to_cstring(row->holder), since);
}

const char *
detail_of(std::int64_t presented, core::FenceState state, const std::optional<FenceRow> &row)
{
	const char *tokens = tokens_of(presented, state, row);

	if (!core::is_of_earlier_epoch(state, state.external, presented))
		return tokens;
	return psprintf(
		"%s Epoch %lld of the token has ended: the database was promoted, restored, copied "
		"or fast-forwarded, and is in epoch %lld.",
		tokens, static_cast<long long>(core::epoch_of(presented)),
		static_cast<long long>(state.epoch));
}

const char *
hint_of(core::FenceState state, bool external, std::int64_t presented)
{
	if (external)
		return "A greater token has been seen. Stop, take the lock again where it is issued, and "
			   "do not retry with this token.";
	return core::is_of_earlier_epoch(state, external, presented) ? ended_hint : stale_hint;
}

// Equal is fine and changes nothing; but the fence may stand by a write whose COMMIT has not waited for
// the disk, which is waited for here. Raises TK001, or 55000 for a resource issued here.
bool
needs_raise(const std::optional<FenceRow> &row, const text *resource, std::int64_t token)
{
	core::FenceState state = state_of(row, nullptr);
	core::Verdict verdict = core::judge_resource(state, /*external=*/true, token);

	if (verdict != core::Verdict::accepted)
		report(ERROR, refusal_of(verdict, resource, token, state, row, /*external=*/true));
	if (!row || token > row->token)
		return true;
	if (settings::durable_grants())
		XLogFlush(TransactionIdGetCommitLSN(row->writer));
	return false;
}

bool
forget(const text *resource)
{
	bool existed = false;

	change_resource(resource, Strength::exclusive, [&] {
		std::optional<FenceRow> row = read_fence(resource);

		if (!row)
			return Outcome::nothing;
		if (delete_fence(*row) != Written::done)
			return Outcome::busy;
		ereport(LOG,
			(errmsg("fencing: resource \"%s\" forgotten by \"%s\"", text_to_cstring(resource),
				 GetUserNameFromId(GetUserId(), /*noerr=*/false)),
				errdetail("Its fence was %lld.", static_cast<long long>(row->token))));
		existed = true;
		return Outcome::written;
	});
	return existed;
}

// The early check; the seal repeats it when the transaction commits. fencing.enforcement reaches a
// binding as it does a guard: observed, a binding that would be refused binds nothing.
void
bind(const text *resource, std::int64_t token)
{
	if (settings::enforcement() == settings::Enforcement::off)
		return;

	bool enforced = settings::enforcement() == settings::Enforcement::enforce;
	std::optional<FenceRow> row = read_fence(resource);
	const Claim *claim = find_claim(view_of(resource));
	bool external = row ? row->external : claim != nullptr && claim->top->external;
	core::FenceState state = state_of(row, claim);
	core::Verdict verdict = judge(state, claim, external, token);

	if (verdict != core::Verdict::accepted) {
		report(
			enforced ? ERROR : WARNING, refusal_of(verdict, resource, token, state, row, external));
		return;
	}
	mark_checked(
		claim_binding(resource, external, token, enforced), 0, row ? &row->version : nullptr);
	keep_seal_first();
}

struct BoundCursor {
	Claim *next;
};

Datum
bound_row(TupleDesc description, const Claim *claim)
{
	Datum values[2] = {PointerGetDatum(claim->resource), Int64GetDatum(claim->top->bound)};
	bool nulls[2] = {false, false};

	return HeapTupleGetDatum(heap_form_tuple(description, values, nulls));
}

const Claim *
next_bound(Claim *claim)
{
	while ((claim = next_counting(claim)) != nullptr && claim->top->bound == 0)
		claim = claim->next;
	return claim;
}

} // namespace

void
commit_durably()
{
	if (settings::durable_grants())
		ForceSyncCommit();
}

core::FenceState
state_of(const std::optional<FenceRow> &row, const Claim *claim)
{
	core::FenceState state = {row ? row->token : core::no_token, row && row->external, 0};

	if (claim != nullptr && claim->top->external && (!row || row->external))
		return {Max(state.fence, claim->top->highest), true, 0};
	if (!state.external)
		state.epoch = current_epoch();
	return state;
}

core::Verdict
judge(core::FenceState state, const Claim *claim, bool external, std::int64_t presented)
{
	if (claim != nullptr && claim->top->external != external)
		return core::Verdict::other_issuer;
	return core::judge_resource(state, external, presented);
}

Refusal
refusal_of(core::Verdict verdict, const text *resource, std::int64_t presented,
	core::FenceState state, const std::optional<FenceRow> &row, bool external)
{
	const char *name = text_to_cstring(resource);

	switch (verdict) {
	case core::Verdict::stale:
		return {ERRCODE_STALE_TOKEN, psprintf("stale fencing token for resource \"%s\"", name),
			detail_of(presented, state, row), hint_of(state, external, presented),
			view_of(resource), presented, state.fence};
	case core::Verdict::unissued:
		return {ERRCODE_UNISSUED_TOKEN,
			psprintf("fencing token was never issued for resource \"%s\"", name),
			detail_of(presented, state, row),
			state.fence == core::no_token
				? "It was never acquired, or has been pruned or forgotten: acquire it, or "
				  "fencing.advance() it where tokens come from elsewhere."
				: "Present the token that fencing.acquire() has returned.",
			view_of(resource), presented, state.fence};
	case core::Verdict::other_issuer:
		return other_issuer(resource, !external);
	case core::Verdict::missing: // who presents none is told so before the resource is asked
	case core::Verdict::invalid:
	case core::Verdict::accepted:
		break;
	}
	return {ERRCODE_INVALID_PARAMETER_VALUE,
		psprintf("fencing token for resource \"%s\" must be 1 or more", name),
		psprintf("It is %lld.", static_cast<long long>(presented)), nullptr};
}

Written
raise_fence(const text *resource, const std::optional<FenceRow> &row, std::int64_t token)
{
	if (!row) {
		insert_fence(FenceRow{{}, resource, token, /*external=*/true, nullptr, nullptr,
			std::nullopt, std::nullopt, std::nullopt, false, InvalidTransactionId});
		return Written::done;
	}

	FenceRow raised = *row;

	raised.token = token;
	return update_fence(raised);
}

} // namespace fencing

FENCING_FUNCTION(fencing_advance)
{
	const text *resource = fencing::resource_argument(fcinfo, 0);
	std::int64_t token = fencing::token_argument(fcinfo, 1);

	fencing::begin_change("fencing.advance()");
	if (!fencing::needs_raise(fencing::read_fence(resource), resource, token))
		PG_RETURN_INT64(token);

	fencing::change_resource(resource, fencing::Strength::exclusive, [&] {
		std::optional<fencing::FenceRow> row = fencing::read_fence(resource);

		if (!fencing::needs_raise(row, resource, token))
			return fencing::Outcome::nothing;
		return fencing::raise_fence(resource, row, token) == fencing::Written::done
			? fencing::Outcome::written
			: fencing::Outcome::busy;
	});
	fencing::commit_durably();
	PG_RETURN_INT64(token);
}

FENCING_FUNCTION(fencing_forget)
{
	const text *resource = fencing::resource_argument(fcinfo, 0);

	fencing::begin_change("fencing.forget()");
	PG_RETURN_BOOL(fencing::forget(resource));
}

FENCING_FUNCTION(fencing_bind)
{
	const text *resource = fencing::resource_argument(fcinfo, 0);
	std::int64_t token = fencing::token_argument(fcinfo, 1);

	PreventCommandDuringRecovery("fencing.bind()");
	fencing::bind(resource, token);
	PG_RETURN_INT64(token);
}

FENCING_FUNCTION(fencing_bound)
{
	return fencing::return_rows<fencing::BoundCursor>(
		fcinfo, [] { return fencing::BoundCursor{fencing::all_claims()}; },
		[](TupleDesc description, fencing::BoundCursor *cursor) -> std::optional<Datum> {
			// Now, and not with the row before: a savepoint may have been rolled back since.
			const fencing::Claim *bound = fencing::next_bound(cursor->next);

			if (bound == nullptr)
				return std::nullopt;
			cursor->next = bound->next;
			return fencing::bound_row(description, bound);
		});
}
