// SPDX-License-Identifier: PostgreSQL
// epoch.h: the arithmetic of epochs (I1, I5).
//
// The high part of a token is its epoch, which grows when the database changes its identity: by
// promotion, recovery to a point, restore, copy or upgrade. The database keeps a record of the
// identity under which it issued last, and of how far its epoch was ahead of the timeline. From the
// record, the running timeline and the last token every server works out one target, always the
// same: absolute, so that doing it twice, or finishing it after a crash, changes nothing more. A
// jump from wherever the sequence stands (to the next epoch, say) would put two servers that lost
// different tokens at the same place.
#pragma once

#include <cstdint>

namespace fencing::core {

// Tokens of one epoch: 2^40.
constexpr int epoch_shift = 40;
constexpr std::int64_t last_epoch = INT64_MAX >> epoch_shift;

// How many epochs a copy passes over, besides its timeline's: its source may have been promoted as
// often after the copy was taken.
constexpr std::int64_t copy_distance = 64;

constexpr std::int64_t
epoch_of(std::int64_t token) noexcept
{
	return token >> epoch_shift;
}

// The tokens of an epoch are greater than this.
constexpr std::int64_t
start_of_epoch(std::int64_t epoch) noexcept
{
	return epoch << epoch_shift;
}

constexpr std::int64_t
end_of_epoch(std::int64_t epoch) noexcept
{
	return start_of_epoch(epoch) | (start_of_epoch(1) - 1);
}

// ---- the record: 39 bits of identity, 24 bits of lead, in one number that a sequence can hold

constexpr int lead_bits = 24;
constexpr int identity_bits = 39;
constexpr std::int64_t lead_zero = std::int64_t{1} << (lead_bits - 1);

struct Origin {
	std::uint64_t identity; // a hash; only its low bits count
	std::int64_t lead;      // epoch less timeline; -1 in a fresh installation
};

constexpr std::uint64_t
short_identity(std::uint64_t hash) noexcept
{
	return hash & ((std::uint64_t{1} << identity_bits) - 1);
}

constexpr std::int64_t
pack(Origin origin) noexcept
{
	return static_cast<std::int64_t>(short_identity(origin.identity) << lead_bits) |
		(origin.lead + lead_zero);
}

constexpr Origin
unpack(std::int64_t record) noexcept
{
	return {static_cast<std::uint64_t>(record) >> lead_bits,
		(record & (2 * lead_zero - 1)) - lead_zero};
}

// What CREATE EXTENSION records: the first timeline begins with token 1.
constexpr std::int64_t fresh_lead = -1;

// The epoch that a server is in, by the record it has, its identity and timeline, and the last value
// of its sequence. The sequence may stand in a later epoch than the record says, if somebody has set
// it by hand; it is never left behind.
constexpr std::int64_t
target_epoch(Origin recorded, std::uint64_t identity, std::int64_t timeline,
	std::int64_t last_token) noexcept
{
	std::int64_t reached = epoch_of(last_token);

	if (recorded.identity != short_identity(identity))
		return reached + copy_distance + timeline;
	return recorded.lead + timeline > reached ? recorded.lead + timeline : reached;
}

} // namespace fencing::core
