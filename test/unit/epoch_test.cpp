// SPDX-License-Identifier: PostgreSQL
// epoch_test.cpp: the arithmetic of epochs and the packing of the record (I1), at the edges.

#include "core/epoch.h"

#include <cstdint>
#include <limits>

namespace {

using namespace fencing::core;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t all_ones = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t identity = 0x1234567890;
constexpr std::uint64_t other = 0x1234567891;
constexpr std::int64_t least_lead = -lead_zero;
constexpr std::int64_t most_lead = lead_zero - 1;

// ---- epochs: 2^40 tokens each, end to end, the first one without 0

static_assert(epoch_of(0) == 0 && epoch_of(1) == 0);
static_assert(epoch_of(1099511627775) == 0);
static_assert(epoch_of(1099511627776) == 1);
static_assert(epoch_of(most) == last_epoch);
static_assert(last_epoch == 8388607);
static_assert(start_of_epoch(0) == 0);
static_assert(start_of_epoch(1) == 1099511627776);
static_assert(end_of_epoch(0) == 1099511627775);
static_assert(end_of_epoch(last_epoch) == most);
// Room below 2^53, for readers that take a token for a double.
static_assert(end_of_epoch(8191) == (std::int64_t{1} << 53) - 1);

constexpr bool
epochs_meet(std::int64_t epoch)
{
	return epoch_of(start_of_epoch(epoch)) == epoch && epoch_of(end_of_epoch(epoch)) == epoch &&
		end_of_epoch(epoch) + 1 == start_of_epoch(epoch + 1);
}

static_assert(epochs_meet(0) && epochs_meet(1) && epochs_meet(64) && epochs_meet(8191));
static_assert(epochs_meet(last_epoch - 1));

// ---- the record: what is packed comes back, is a value that a sequence can hold, and is one only

constexpr bool
comes_back(std::uint64_t hash, std::int64_t lead)
{
	Origin origin = unpack(pack({hash, lead}));

	return origin.identity == short_identity(hash) && origin.lead == lead &&
		pack(origin) == pack({hash, lead}) && pack({hash, lead}) >= 0;
}

constexpr bool
comes_back_with_every_lead(std::uint64_t hash)
{
	return comes_back(hash, least_lead) && comes_back(hash, least_lead + 1) &&
		comes_back(hash, fresh_lead) && comes_back(hash, 0) && comes_back(hash, 1) &&
		comes_back(hash, most_lead - 1) && comes_back(hash, most_lead);
}

static_assert(identity_bits + lead_bits == 63);
static_assert(fresh_lead == -1 && least_lead == -8388608 && most_lead == 8388607);
static_assert(comes_back_with_every_lead(0));
static_assert(comes_back_with_every_lead(1));
static_assert(comes_back_with_every_lead(identity));
static_assert(comes_back_with_every_lead(std::uint64_t{1} << (identity_bits - 1)));
static_assert(comes_back_with_every_lead(std::uint64_t{1} << identity_bits));
static_assert(comes_back_with_every_lead(all_ones));
static_assert(pack({all_ones, most_lead}) == most);
static_assert(short_identity(all_ones) == (std::uint64_t{1} << 39) - 1);
static_assert(pack({0, most_lead}) + 1 == pack({1, least_lead}));
// The greatest lead that is ever needed: the last epoch on the first timeline.
static_assert(last_epoch - 1 <= most_lead);

// The number is on disk and in dumps: it must mean the same in every version.
static_assert(pack({identity, fresh_lead}) == 0x12345678907FFFFF);
static_assert(pack({identity, 64}) == 0x1234567890800040);

// ---- the target

constexpr std::int64_t
target_of(Origin recorded, std::int64_t timeline, std::int64_t last_token)
{
	return target_epoch(unpack(pack(recorded)), identity, timeline, last_token);
}

constexpr Origin fresh = {identity, fresh_lead};

// A fresh installation: 1, 2, 3, ... on timeline 1, above (n - 1) * 2^40 on timeline n.
static_assert(target_of(fresh, 1, 0) == 0);
static_assert(start_of_epoch(target_of(fresh, 1, 0)) + 1 == 1);
static_assert(target_of(fresh, 7, 0) == 6);

// Promoted: one epoch for each timeline, whatever part of the last tokens was lost.
static_assert(target_of(fresh, 2, 0) == 1);
static_assert(target_of(fresh, 2, 34) == 1);
static_assert(target_of(fresh, 3, 34) == 2);
static_assert(target_of({identity, 64}, 3, start_of_epoch(65)) == 67);

// Copied: beyond where its source can have got to by promotion.
static_assert(target_of({other, fresh_lead}, 1, 34) == 65);
static_assert(target_of({other, fresh_lead}, 7, 34) == 71);
static_assert(target_of({other, 70}, 1, start_of_epoch(71) + 34) == 136);
static_assert(copy_distance == 64);

// Absolute: as soon as the record is written, with the sequence raised or not, the target stays.
static_assert(target_of({identity, 64}, 1, 34) == 65);
static_assert(target_of({identity, 64}, 1, start_of_epoch(65)) == 65);
static_assert(target_of({identity, 64}, 1, end_of_epoch(65)) == 65);

// The sequence stands in a later epoch than the record says: never behind it.
static_assert(target_of(fresh, 1, start_of_epoch(9)) == 9);
static_assert(target_of(fresh, 1, end_of_epoch(9)) == 9);
static_assert(target_of(fresh, 10, start_of_epoch(9)) == 9);
static_assert(target_of(fresh, 11, start_of_epoch(9)) == 10);
static_assert(target_of(fresh, 1, most) == last_epoch);

// Of the hash only the bits count that the record can hold.
static_assert(target_epoch({short_identity(all_ones), fresh_lead}, all_ones, 2, 0) == 1);
static_assert(target_epoch({short_identity(all_ones), fresh_lead}, all_ones >> 25, 2, 0) == 1);
static_assert(target_epoch({short_identity(all_ones), fresh_lead}, all_ones >> 26, 2, 0) == 66);

} // namespace
