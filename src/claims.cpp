// SPDX-License-Identifier: PostgreSQL
// claims.cpp: what the running transaction has claimed.
//
// Everything lives in the memory of the top transaction and dies with it. The levels that a
// subtransaction has made are chained to each other, so that its end costs what it did, not what
// the whole transaction has claimed.

#include "claims.h"

#include "arguments.h"
#include "bindings.h"

extern "C" {
#include "access/xact.h"
#include "common/hashfn.h"
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

// The look-up table: open addressing, since a bulk write may make a million claims. Nothing is ever
// taken out of it. (The server's dynahash splits a bucket for each entry that comes in, which cost
// more than reading the fence; its simplehash is no C++.)
struct Slot {
	std::uint32_t hash;
	Claim *claim; // null: free
};

struct Claims {
	Slot *slots;
	std::size_t slot_count; // a power of two
	Claim *first;
	Claim **last;
	std::size_t count;
	Nesting *innermost;
	char *room; // for claims, what is left of a chunk
	std::size_t room_left;
	bool closed;
};

Claims claims = {};

constexpr std::size_t fewest_slots = 64;
constexpr std::size_t first_chunk = 1024; // most transactions claim one resource or a few
constexpr std::size_t chunk_size = 8192;
static_assert(first_chunk >= MAXALIGN(sizeof(Claim) + VARHDRSZ + longest_resource));

std::uint32_t
hash_of(std::string_view resource)
{
	return hash_bytes(reinterpret_cast<const unsigned char *>(resource.data()),
		static_cast<int>(resource.size()));
}

// Where the resource is, or would be.
Slot *
slot_of(std::string_view resource, std::uint32_t hash)
{
	std::size_t mask = claims.slot_count - 1;
	std::size_t i = hash & mask;

	while (claims.slots[i].claim != nullptr &&
		(claims.slots[i].hash != hash || view_of(claims.slots[i].claim->resource) != resource))
		i = (i + 1) & mask;
	return &claims.slots[i];
}

// Doubles the table when it is half full.
void
make_room()
{
	if (claims.count < claims.slot_count / 2)
		return;

	std::size_t count = Max(claims.slot_count * 2, fewest_slots);
	auto *slots = static_cast<Slot *>(MemoryContextAllocExtended(
		TopTransactionContext, count * sizeof(Slot), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));

	for (std::size_t from = 0; from < claims.slot_count; from++) {
		if (claims.slots[from].claim == nullptr)
			continue;

		std::size_t to = claims.slots[from].hash & (count - 1);

		while (slots[to].claim != nullptr)
			to = (to + 1) & (count - 1);
		slots[to] = claims.slots[from];
	}
	if (claims.slots != nullptr)
		pfree(claims.slots);
	else
		claims.last = &claims.first;
	claims.slots = slots;
	claims.slot_count = count;
}

void *
allocate(Size size)
{
	return MemoryContextAllocZero(TopTransactionContext, size);
}

// A claim and its name side by side, carved out of a chunk: the server would round each up to a
// power of two.
Claim *
new_claim(std::string_view resource)
{
	std::size_t size = MAXALIGN(sizeof(Claim) + VARHDRSZ + resource.size());

	if (claims.room_left < size) {
		std::size_t chunk = claims.count == 0 ? first_chunk : chunk_size;

		claims.room = static_cast<char *>(MemoryContextAlloc(TopTransactionContext, chunk));
		claims.room_left = chunk;
	}

	auto *claim = reinterpret_cast<Claim *>(claims.room);

	*claim = {};
	auto *name = reinterpret_cast<text *>(claim + 1);

	claims.room += size;
	claims.room_left -= size;
	SET_VARSIZE(name, VARHDRSZ + resource.size());
	memcpy(VARDATA(name), resource.data(), resource.size());
	claim->resource = name;
	ItemPointerSetInvalid(&claim->seen);
	return claim;
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
	ClaimLevel *level = claim->top == nullptr
		? &claim->first
		: static_cast<ClaimLevel *>(allocate(sizeof(ClaimLevel)));

	*level = claim->top == nullptr ? ClaimLevel{} : *claim->top;
	level->below = claim->top;
	level->nesting = depth;
	level->claim = claim;
	level->next_of_nesting = nesting->levels;
	nesting->levels = level;
	claim->top = level;
	return level;
}

void
free_level(ClaimLevel *level)
{
	if (level != &level->claim->first)
		pfree(level);
}

Claim *
claim_of(std::string_view resource)
{
	require_open_claims();
	take_place_for_bindings();
	make_room();

	std::uint32_t hash = hash_of(resource);
	Slot *slot = slot_of(resource, hash);

	if (slot->claim == nullptr) {
		*slot = {hash, new_claim(resource)};
		slot->claim->shown = claims.count < bindings_shown;
		*claims.last = slot->claim;
		claims.last = &slot->claim->next;
		claims.count++;
	}
	return slot->claim;
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
			static_cast<Claimed &>(*below) = *level;
			level->claim->top = below;
			*link = level->next_of_nesting;
			free_level(level);
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
		free_level(level);
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
	else if (event == SUBXACT_EVENT_ABORT_SUB) {
		roll_back(nesting);
		show_claims();
	}
}

extern "C" void
end_claims_of_transaction(XactEvent event, void * /*argument*/)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;

	bool shown = claims.first != nullptr;

	claims = {};
	if (shown)
		show_claims();
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
	if (claims.slots == nullptr)
		return nullptr;

	Claim *claim = slot_of(resource, hash_of(resource))->claim;

	return claim == nullptr || claim->top == nullptr ? nullptr : claim;
}

std::int64_t
lowest_claimed(const Claimed *claimed, bool enforced)
{
	return lower_of(
		claimed->lowest[enforced], claimed->binding_enforced == enforced ? claimed->bound : 0);
}

Claim *
claim_binding(const text *resource, bool external, std::int64_t token, bool enforced)
{
	Claim *claim = claim_of(view_of(resource));
	ClaimLevel *level = writable_level(claim);

	level->external = external;
	level->bound = token;
	level->binding_enforced = level->binding_enforced || enforced;
	level->highest = Max(level->highest, token);
	if (claim->shown)
		show_claims();
	return claim;
}

Claim *
claim_write(std::string_view resource, bool external, std::int64_t token, bool enforced)
{
	Claim *claim = claim_of(resource);
	ClaimLevel *level = writable_level(claim);

	level->external = external;
	level->lowest[enforced] = lower_of(level->lowest[enforced], token);
	level->highest = Max(level->highest, token);
	if (claim->shown)
		show_claims();
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

Claim *
next_counting(Claim *claim)
{
	while (claim != nullptr && claim->top == nullptr)
		claim = claim->next;
	return claim;
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
