// SPDX-License-Identifier: PostgreSQL
// claims.cpp: what the running transaction has claimed.
//
// Everything lives in the memory of the top transaction and dies with it. The levels that a
// subtransaction has made are chained to each other, so that its end costs what it did, not what
// the whole transaction has claimed.

#include "claims.h"

extern "C" {
#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
}

namespace fencing {

namespace {

// The levels made at one nesting of subtransactions.
struct Nesting {
	Nesting *outer;
	int depth;
	ClaimLevel *levels;
};

struct Claims {
	HTAB *by_name;
	Claim *first;
	Claim **last;
	std::size_t count;
	Nesting *innermost;
	bool closed;
};

Claims claims = {};

extern "C" uint32
hash_name(const void *key, Size)
{
	const auto *name = static_cast<const std::string_view *>(key);

	return hash_bytes(
		reinterpret_cast<const unsigned char *>(name->data()), static_cast<int>(name->size()));
}

extern "C" int
compare_names(const void *left, const void *right, Size)
{
	return *static_cast<const std::string_view *>(left) ==
			*static_cast<const std::string_view *>(right)
		? 0
		: 1;
}

void
create_table()
{
	HASHCTL control = {};

	control.keysize = sizeof(std::string_view);
	control.entrysize = sizeof(Claim);
	control.hash = hash_name;
	control.match = compare_names;
	control.hcxt = TopTransactionContext;
	claims.by_name = hash_create(
		"fencing claims", 64, &control, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	claims.last = &claims.first;
}

void *
allocate(Size size)
{
	return MemoryContextAllocZero(TopTransactionContext, size);
}

Nesting *
nesting_of(int depth)
{
	if (claims.innermost == nullptr || claims.innermost->depth < depth) {
		auto *nesting = static_cast<Nesting *>(allocate(sizeof(Nesting)));

		nesting->depth = depth;
		nesting->outer = claims.innermost;
		claims.innermost = nesting;
	}
	return claims.innermost;
}

// The level of the running subtransaction, to be changed; a copy of the one below if it is new.
ClaimLevel *
writable_level(Claim *claim)
{
	int depth = GetCurrentTransactionNestLevel();

	if (claim->top != nullptr && claim->top->nesting == depth)
		return claim->top;

	Nesting *nesting = nesting_of(depth);
	auto *level = static_cast<ClaimLevel *>(allocate(sizeof(ClaimLevel)));

	if (claim->top != nullptr)
		*level = *claim->top;
	level->below = claim->top;
	level->nesting = depth;
	level->claim = claim;
	level->next_of_nesting = nesting->levels;
	nesting->levels = level;
	claim->top = level;
	return level;
}

Claim *
claim_of(std::string_view resource, bool external)
{
	require_open_claims();
	if (claims.by_name == nullptr)
		create_table();

	bool found;
	auto *claim = static_cast<Claim *>(hash_search(claims.by_name, &resource, HASH_ENTER, &found));

	if (!found) {
		auto *name = static_cast<text *>(
			MemoryContextAlloc(TopTransactionContext, VARHDRSZ + resource.size()));

		SET_VARSIZE(name, VARHDRSZ + resource.size());
		memcpy(VARDATA(name), resource.data(), resource.size());
		claim->key = view_of(name);
		claim->resource = name;
		claim->top = nullptr;
		claim->next = nullptr;
		claim->checked = 0;
		ItemPointerSetInvalid(&claim->seen);
		*claims.last = claim;
		claims.last = &claim->next;
		claims.count++;
	}
	claim->external = external;
	return claim;
}

// 0 is none.
std::int64_t
lower_of(std::int64_t left, std::int64_t right)
{
	return left == 0 || (right != 0 && right < left) ? right : left;
}

// What a subtransaction has claimed becomes its parent's. Neither this nor the rollback may raise
// or allocate: they run while a subtransaction ends.
void
hand_to_parent(Nesting *nesting)
{
	int parent = nesting->depth - 1;
	Nesting *outer = nesting->outer;
	ClaimLevel **link = &nesting->levels;

	while (ClaimLevel *level = *link) {
		ClaimLevel *below = level->below;

		level->nesting = parent;
		if (below != nullptr && below->nesting == parent) {
			// The parent has a level of its own, in its own chain: it takes the values.
			below->bound = level->bound;
			below->binding_enforced = level->binding_enforced;
			below->lowest[0] = level->lowest[0];
			below->lowest[1] = level->lowest[1];
			below->highest = level->highest;
			level->claim->top = below;
			*link = level->next_of_nesting;
			pfree(level);
			continue;
		}
		link = &level->next_of_nesting;
	}
	if (outer != nullptr && outer->depth == parent) {
		*link = outer->levels;
		outer->levels = nesting->levels;
		claims.innermost = outer;
		pfree(nesting);
		return;
	}
	nesting->depth = parent;
}

void
roll_back(Nesting *nesting)
{
	claims.innermost = nesting->outer;
	for (ClaimLevel *level = nesting->levels, *next; level != nullptr; level = next) {
		next = level->next_of_nesting;
		level->claim->top = level->below;
		pfree(level);
	}
	pfree(nesting);
}

extern "C" void
end_claims_of_subtransaction(
	SubXactEvent event, SubTransactionId, SubTransactionId, void * /*argument*/)
{
	Nesting *nesting = claims.innermost;

	if (nesting == nullptr || nesting->depth < GetCurrentTransactionNestLevel())
		return;
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		hand_to_parent(nesting);
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		roll_back(nesting);
}

extern "C" void
end_claims_of_transaction(XactEvent event, void * /*argument*/)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		claims = {};
}

} // namespace

void
register_claims()
{
	RegisterXactCallback(end_claims_of_transaction, nullptr);
	RegisterSubXactCallback(end_claims_of_subtransaction, nullptr);
}

Claim *
find_claim(std::string_view resource)
{
	if (claims.by_name == nullptr)
		return nullptr;

	auto *claim = static_cast<Claim *>(hash_search(claims.by_name, &resource, HASH_FIND, nullptr));

	return claim == nullptr || claim->top == nullptr ? nullptr : claim;
}

std::int64_t
lowest_claimed(const ClaimLevel *level, bool enforced)
{
	return lower_of(
		level->lowest[enforced], level->binding_enforced == enforced ? level->bound : 0);
}

Claim *
claim_binding(const text *resource, bool external, std::int64_t token, bool enforced)
{
	Claim *claim = claim_of(view_of(resource), external);
	ClaimLevel *level = writable_level(claim);

	level->bound = token;
	level->binding_enforced = level->binding_enforced || enforced;
	level->highest = Max(level->highest, token);
	return claim;
}

Claim *
claim_write(std::string_view resource, bool external, std::int64_t token, bool enforced)
{
	Claim *claim = claim_of(resource, external);
	ClaimLevel *level = writable_level(claim);

	level->lowest[enforced] = lower_of(level->lowest[enforced], token);
	level->highest = Max(level->highest, token);
	return claim;
}

void
mark_checked(Claim *claim, std::uint64_t statement, const ItemPointerData *seen)
{
	claim->checked = statement;
	if (seen != nullptr)
		claim->seen = *seen;
	else
		ItemPointerSetInvalid(&claim->seen);
}

Claim *
all_claims()
{
	return claims.first;
}

std::size_t
claim_count()
{
	return claims.count;
}

void
close_claims()
{
	claims.closed = true;
}

void
require_open_claims()
{
	if (claims.closed)
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("the transaction has already checked its fencing tokens"),
				errdetail("Nothing can be bound or written under a token while it commits.")));
}

bool
claims_are_closed()
{
	return claims.closed;
}

} // namespace fencing
