// SPDX-License-Identifier: PostgreSQL
// claims.h: what the running transaction has claimed: pairs of resource and token that it is bound
// to, or has written with. They are checked again, all of them, when it commits (seal.h).
//
// A claim follows savepoints: it keeps a stack with what it was before each of them. It is never
// taken out of the list before the transaction ends; rolled back, its stack is empty and it counts
// for nothing. So the list and the look-up table cannot disagree.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "storage/itemptr.h"
}

namespace fencing {

// What is claimed of a resource.
struct Claimed {
	bool external;          // where the tokens come from
	std::int64_t bound;     // the greatest token bound to; 0: not bound
	bool binding_enforced;  // false: bound in observe mode only
	std::int64_t lowest[2]; // of the tokens written with, observed and enforced; 0: none
	std::int64_t highest;   // of all
};

struct ClaimLevel : Claimed {
	ClaimLevel *below;
	ClaimLevel *next_of_nesting; // other claims with a level of the same nesting
	struct Claim *claim;
	int nesting; // of the subtransaction that made this level
};

// The lowest token that has to stand, of what was claimed in observe mode or of what is enforced; 0:
// none. A binding that was renewed with a greater token counts as the greater; a token that was
// written with stays written.
std::int64_t lowest_claimed(const Claimed *claimed, bool enforced);

struct Claim {
	const text *resource;  // compared bytewise
	ClaimLevel *top;       // null: rolled back
	ClaimLevel first;      // most claims need no other level
	Claim *next;           // in the order in which they were made
	std::uint64_t checked; // the statement in which the fence was read last
	ItemPointerData seen;  // where its row was then; invalid: there was none
	bool raises;           // the seal has to raise the fence
	bool shown;            // to other backends: one of the first
};
static_assert(survives_longjmp<Claim>);

// Called once, when the library loads.
void register_claims();

// The claim of a resource that counts; null if there is none.
Claim *find_claim(std::string_view resource);

// Remember.
Claim *claim_binding(const text *resource, bool external, std::int64_t token, bool enforced);
Claim *claim_write(std::string_view resource, bool external, std::int64_t token, bool enforced);

// All claims in order, null-terminated by `next`; those with a null `top` do not count.
Claim *all_claims();
// The first that counts, from `claim` on.
Claim *next_counting(Claim *claim);
std::size_t claim_count();

// Remembers that the fence was read: in which statement (0: none), and where its row was.
void mark_checked(Claim *claim, std::uint64_t statement, const ItemPointerData *seen);

// Lets other backends see the first claims as they are now, as far as they are enforced. Neither raises nor allocates.
void show_claims();

// From here to the end of the transaction nothing can be claimed any more.
void close_claims();
bool claims_are_closed();
// Raises 55000 then.
void require_open_claims();

} // namespace fencing
