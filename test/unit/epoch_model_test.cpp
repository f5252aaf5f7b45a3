// SPDX-License-Identifier: PostgreSQL
// epoch_model_test.cpp: every history of a family of servers, up to a depth (I1).
//
// A server is one life of a database: an identity, a timeline, and its WAL, of which each entry
// says what the record and the sequence are after it. A draw writes the record, raises the sequence
// and counts on, in that order, with the functions of core/epoch.h. The enumeration tries every
// event at every moment: draw, fast_forward, crash (also between those steps), promotion and
// recovery to a point from any prefix of any server's WAL, copy under a new identity. Nobody dies:
// a server that has a successor may issue on, for that is what it does when nobody stops it.
//
// A rule that is wrong on purpose has to fail in the same enumeration; so has the right rule when
// what no server can see is let in.

#include "core/epoch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using namespace fencing::core;

// ---- the rule: what is recorded, and which epoch follows from it

struct Rule {
	std::int64_t (*record)(std::uint64_t identity, std::int64_t epoch, std::int64_t timeline);
	std::int64_t (*target)(std::int64_t record, std::uint64_t identity, std::int64_t timeline,
		std::int64_t last_token);
	bool raise_first = false; // the sequence before the record
	bool raise_once = false;  // who has written the record does not look at the sequence again
	bool in_a_row = false;    // the caller's ROLLBACK takes the record back
};

std::int64_t
right_record(std::uint64_t identity, std::int64_t epoch, std::int64_t timeline)
{
	return pack({identity, epoch - timeline});
}

std::int64_t
right_target(
	std::int64_t record, std::uint64_t identity, std::int64_t timeline, std::int64_t last_token)
{
	return target_epoch(unpack(record), identity, timeline, last_token);
}

constexpr Rule right_rule = {right_record, right_target};

// ---- what the enumeration leaves out, because no server can see it; each can be let in

struct Bounds {
	int depth;
	bool two_copies = false;        // of one source, by two dumps or by one
	bool undrawn_copy = false;      // two changes of identity and no draw between them
	bool shared_timeline = false;   // two standbys promoted from one timeline, no shared archive
	bool lost_fast_forward = false; // by a failover, into another epoch
	bool lost_crossing = false;     // the same, of a draw that stepped over the end of an epoch
	// Promotions of a source (and epochs it was sent forward) since its last draw before the copy.
	int promotions_of_source = 63;
	bool only_plain = false; // neither crashes nor fast_forward: for a rule that fails without
};

// ---- the family

constexpr int most_events = 8;
constexpr int most_servers = most_events + 1;
constexpr int most_positions = 3 * most_events + 1;

// What is known after an entry of the WAL.
struct Position {
	std::int16_t server;
	bool drawn; // a token was drawn last: a crash may skip some
	// Epochs gone forward without a change of identity, by fast_forward or by drawing.
	std::int16_t forced;
	std::int16_t level; // timeline and forced when an epoch was last entered whole; 0: never yet
	std::int64_t record;
	std::int64_t value; // last token of the sequence
};

struct Server {
	int line; // servers of one identity are a line; the next line begins with a copy of this one
	int timeline;
	int last;                     // its last position
	bool wrote;                   // has written the record in this life
	std::int64_t least, greatest; // tokens handed out; greatest 0: none
};

enum class Fault {
	none,
	disordered, // a successor or a copy is not above all of its ancestors, or an epoch is missed
	twice       // a token was handed out twice
};

struct World {
	int servers = 0, positions = 0, tokens = 0, lines = 0;
	std::array<std::int16_t, most_servers> copied_level; // of a line, when copied; -1: it was not
	std::array<std::int16_t, most_servers> forced;       // of a line
	std::array<Server, most_servers> server;
	std::array<Position, most_positions> position;
	std::array<std::int64_t, most_events> token;
	Fault fault = Fault::none;
};

// Differ within the 39 bits that count; all 64 bits are set somewhere.
constexpr std::uint64_t
identity_of(int line)
{
	return UINT64_MAX - static_cast<std::uint64_t>(line) * 0x1000000001;
}

int
newest_timeline(const World &world, int line)
{
	int newest = 0;

	for (int i = 0; i < world.servers; i++)
		if (world.server[i].line == line)
			newest = std::max(newest, world.server[i].timeline);
	return newest;
}

int
write_position(World *world, Position position)
{
	world->position[world->positions] = position;
	return world->server[position.server].last = world->positions++;
}

void
add_server(World *world, int line, int timeline, Position position)
{
	position.server = static_cast<std::int16_t>(world->servers);
	world->server[world->servers++] = {line, timeline, 0, false, 0, 0};
	write_position(world, position);
}

int
add_line(World *world, int timeline, Position position)
{
	world->copied_level[world->lines] = -1;
	world->forced[world->lines] = 0;
	add_server(world, world->lines, timeline, position);
	return world->lines++;
}

World
create_extension(const Rule &rule, int timeline)
{
	World world;
	std::int64_t record = rule.record(identity_of(0), timeline + fresh_lead, timeline);

	add_line(&world, timeline, {0, false, 0, 1, record, 0});
	return world;
}

// A source must not come as far as its copy by promotions. By the count, whatever the rule says.
bool
sources_behind(const World &world, const Bounds &bounds)
{
	for (int line = 0; line < world.lines; line++)
		if (world.copied_level[line] >= 0 &&
			newest_timeline(world, line) + world.forced[line] - world.copied_level[line] >
				bounds.promotions_of_source)
			return false;
	return true;
}

// I1. All servers are in one order, by line and timeline; so have to be their tokens.
Fault
fault_of(const World &world, int server, std::int64_t token, std::int64_t epoch)
{
	const Server &self = world.server[server];
	Fault fault = epoch_of(token) == epoch ? Fault::none : Fault::disordered;

	for (int i = 0; i < world.tokens; i++)
		if (world.token[i] == token)
			return Fault::twice;
	for (int i = 0; i < world.servers; i++) {
		const Server &other = world.server[i];
		bool before =
			other.line != self.line ? other.line < self.line : other.timeline <= self.timeline;

		if (other.greatest != 0 && (before ? token <= other.greatest : token >= other.least))
			fault = Fault::disordered;
	}
	return fault;
}

void
hand_out(World *world, int server, std::int64_t token, std::int64_t epoch)
{
	Server *self = &world->server[server];

	world->fault = std::max(world->fault, fault_of(*world, server, token, epoch));
	world->token[world->tokens++] = token;
	self->least = self->greatest == 0 ? token : self->least;
	self->greatest = token;
}

// ---- events

enum class Kind { draw, fast_forward, skip, promote, copy };

struct Event {
	Kind kind;
	int server;
	// fast_forward: where to; promote: the position that is still there; copy: timeline of the copy
	int choice = 0;
	// draw, fast_forward: the server crashes after so many steps, 0: it does not; promote: so often
	int count = 0;
	bool rolled_back = false;
};

enum Goal { within_epoch, last_of_epoch, next_epoch, epoch_after_next, goals };

std::int64_t
above_of(int goal, std::int64_t epoch, std::int64_t value)
{
	switch (goal) {
	case within_epoch:
		return std::max(start_of_epoch(epoch), value) + 3;
	case last_of_epoch:
		return end_of_epoch(epoch) - 1;
	case next_epoch:
		return start_of_epoch(epoch + 1) + 1;
	default:
		return start_of_epoch(epoch + 2);
	}
}

// The way of a draw or a fast_forward: half 1, half 2, and the token, or `above`.
struct Way {
	std::int64_t plain;  // the epoch that the server is in
	std::int64_t target; // and that it has to enter
	std::int64_t record;
	bool records;
	bool raises;
	std::int64_t value;
};

Way
way_of(const World &world, const Rule &rule, const Event &event)
{
	const Server &self = world.server[event.server];
	const Position &now = world.position[self.last];
	std::uint64_t identity = identity_of(self.line);
	Way way;

	way.plain = rule.target(now.record, identity, self.timeline, now.value);
	way.target = way.plain;
	if (event.kind == Kind::fast_forward) {
		way.value = above_of(event.choice, way.plain, now.value);
		way.target = std::max(way.plain, epoch_of(way.value));
	} else if (now.value == end_of_epoch(way.plain)) {
		way.target++;
	}
	way.record = rule.record(identity, way.target, self.timeline);
	way.records = way.record != now.record && !(rule.in_a_row && event.rolled_back);
	way.raises = now.value < start_of_epoch(way.target) && !(rule.raise_once && self.wrote);
	if (event.kind == Kind::draw)
		way.value = (way.raises ? start_of_epoch(way.target) : now.value) + 1;
	return way;
}

// False: not possible, or left out.
bool
issue(World *world, const Rule &rule, const Bounds &bounds, const Event &event)
{
	Server *self = &world->server[event.server];
	Position now = world->position[self->last];
	Way way = way_of(*world, rule, event);
	int halves = way.records + way.raises;
	int until = event.count == 0 ? halves + 1 : event.count;

	if (until > halves + (event.count == 0 ? 1 : 0) || way.value <= now.value)
		return false;

	// A promoted standby that lacks this would enter the same epoch.
	bool may_be_lost = event.kind == Kind::draw ? bounds.lost_crossing : bounds.lost_fast_forward;
	if (way.target > way.plain && !may_be_lost) {
		if (newest_timeline(*world, self->line) > self->timeline)
			return false;
		now.forced = static_cast<std::int16_t>(now.forced + way.target - way.plain);
	}
	now.drawn = false;
	world->forced[self->line] = std::max(world->forced[self->line], now.forced);
	for (int step = 0; step < until; step++) {
		if (step == halves) {
			now.value = way.value;
			now.drawn = event.kind == Kind::draw;
		} else if (way.records && step == (rule.raise_first && way.raises ? 1 : 0)) {
			now.record = way.record;
			self->wrote = true;
		} else {
			now.value = start_of_epoch(way.target);
		}
		if (step >= halves - 1 && epoch_of(now.value) == way.target)
			now.level = static_cast<std::int16_t>(self->timeline + now.forced);
		(void)write_position(world, now);
	}
	if (now.drawn)
		hand_out(world, event.server, now.value, way.target);
	return sources_behind(*world, bounds);
}

// What the server has logged ahead is skipped, within the epoch.
bool
skip_logged_ahead(World *world, const Event &event)
{
	Position now = world->position[world->server[event.server].last];

	if (!now.drawn || now.value + 2 > end_of_epoch(epoch_of(now.value)))
		return false;
	now.value += 2;
	now.drawn = false;
	(void)write_position(world, now);
	return true;
}

// A standby, or a recovery from the archive, that has the WAL up to a position.
bool
promote(World *world, const Bounds &bounds, const Event &event)
{
	int line = world->server[event.server].line;
	Position found = world->position[event.choice];
	int timeline = newest_timeline(*world, line) + event.count;

	if (found.forced != world->forced[line])
		return false;
	if (bounds.shared_timeline)
		timeline = world->server[event.server].timeline + event.count;
	found.drawn = false;
	add_server(world, line, timeline, found);
	return sources_behind(*world, bounds);
}

// Dump and restore, template, upgrade: another identity, any timeline.
bool
copy(World *world, const Bounds &bounds, const Event &event)
{
	int line = world->server[event.server].line;
	Position found = world->position[world->server[event.server].last];

	if (world->copied_level[line] >= 0 && !bounds.two_copies)
		return false;
	if (found.level == 0 && !bounds.undrawn_copy)
		return false;
	world->copied_level[line] = found.level;
	(void)add_line(world, event.choice, {0, false, 0, 0, found.record, found.value});
	return sources_behind(*world, bounds);
}

bool
happens(World *world, const Rule &rule, const Bounds &bounds, const Event &event)
{
	switch (event.kind) {
	case Kind::skip:
		return skip_logged_ahead(world, event);
	case Kind::promote:
		return promote(world, bounds, event);
	case Kind::copy:
		return copy(world, bounds, event);
	default:
		return issue(world, rule, bounds, event);
	}
}

// A standby or an archive that has the WAL up to here: but once, where two would look the same.
bool
is_known_before(const World &world, int position)
{
	const Position &at = world.position[position];

	for (int i = 0; i < position; i++) {
		const Position &known = world.position[i];

		if (known.record == at.record && known.value == at.value && known.level == at.level &&
			known.forced == at.forced &&
			world.server[known.server].line == world.server[at.server].line)
			return true;
	}
	return false;
}

// Whatever may come next; some of it turns out not to be possible.
std::vector<Event>
events_of(const World &world, const Rule &rule, const Bounds &bounds)
{
	std::vector<Event> events;

	events.reserve(64);
	for (int server = 0; server < world.servers; server++) {
		for (int back = 0; back <= (rule.in_a_row ? 1 : 0); back++)
			for (int crash = 0; crash <= (bounds.only_plain ? 0 : 2); crash++) {
				events.push_back({Kind::draw, server, 0, crash, back == 1});
				// A crash on the way within an epoch looks as it does in a draw.
				int first = bounds.only_plain ? goals : crash > 0 ? next_epoch : within_epoch;
				for (int goal = first; goal < goals; goal++)
					events.push_back({Kind::fast_forward, server, goal, crash, back == 1});
			}
		if (!bounds.only_plain)
			events.push_back({Kind::skip, server});
		for (int timeline : {1, 2})
			events.push_back({Kind::copy, server, timeline});
		if (world.server[server].timeline > 2)
			events.push_back({Kind::copy, server, world.server[server].timeline});
	}
	for (int i = 0; i < world.positions; i++) {
		int server = world.position[i].server;
		int line = world.server[server].line;
		// As many promotions as a copy allows its source, with no draw in between.
		int most = bounds.promotions_of_source + world.copied_level[line] - world.forced[line] -
			newest_timeline(world, line);

		if (!bounds.shared_timeline && is_known_before(world, i))
			continue;
		events.push_back({Kind::promote, server, i, 1});
		if (world.copied_level[line] >= 0 && most > 1)
			events.push_back({Kind::promote, server, i, most});
	}
	return events;
}

// ---- the enumeration

std::uint64_t
mixed(std::uint64_t hash, std::uint64_t value)
{
	hash = (hash ^ value) * 0x9E3779B97F4A7C15;
	return hash ^ (hash >> 29);
}

// Two worlds that differ only in the order of events that do not touch one another have one hash.
std::uint64_t
hash_of(const World &world)
{
	std::array<std::uint64_t, most_servers> hash;
	std::uint64_t sum = 0;

	for (int i = 0; i < world.servers; i++) {
		const Server &server = world.server[i];

		hash[i] = mixed(mixed(mixed(0, server.line), server.timeline), server.wrote);
		hash[i] = mixed(mixed(hash[i], server.least), server.greatest);
	}
	for (int i = 0; i < world.positions; i++) {
		const Position &at = world.position[i];
		std::uint64_t *own = &hash[at.server];

		*own = mixed(mixed(*own, at.record), at.value);
		*own = mixed(mixed(mixed(*own, at.level), at.forced), at.drawn);
	}
	for (int i = 0; i < world.servers; i++)
		sum += mixed(hash[i], hash[i] >> 7);
	for (int i = 0; i < world.tokens; i++)
		sum += mixed(1, world.token[i]);
	for (int line = 0; line < world.lines; line++)
		sum += mixed(mixed(mixed(2, line), world.copied_level[line]), world.forced[line]);
	return sum;
}

struct Search {
	const Rule &rule;
	Bounds bounds;
	Fault wanted;                                      // or worse
	std::unordered_map<std::uint64_t, double> known{}; // histories that follow, by world and depth
	std::vector<Event> path{};                         // to the fault, its last event first

	// The number of histories of up to `depth` events that follow on `world`, and on the event that
	// has led to it, if no fault is found; else `path` leads there.
	double
	histories(const World &world, const Event &event, int depth)
	{
		return depth == 1 ? last_draws(world, event) : all_histories(world, depth);
	}

	// The last event matters only if it is a draw, and only together with the event before it: by
	// any other server that draw has been tried without that event.
	double
	last_draws(const World &world, const Event &before)
	{
		double found = 1;

		for (int server = 0; server < world.servers; server++) {
			Event draw = {Kind::draw, server};

			if (before.kind == Kind::draw       ? server < before.server
					: before.kind <= Kind::skip ? server != before.server
												: server != world.servers - 1)
				continue;
			Way way = way_of(world, rule, draw);
			if (fault_of(world, server, way.value, way.target) >= wanted) {
				World next = world;

				if (!happens(&next, rule, bounds, draw))
					continue;
				path.push_back(draw);
				return found;
			}
			found++;
		}
		return found;
	}

	double
	all_histories(const World &world, int depth)
	{
		std::uint64_t key = mixed(hash_of(world), depth);
		auto [entry, is_new] = known.try_emplace(key, 0);
		double found = 1;

		if (!is_new)
			return entry->second;
		for (const Event &event : events_of(world, rule, bounds)) {
			World next = world;

			if (!happens(&next, rule, bounds, event))
				continue;
			if (next.fault < wanted)
				found += histories(next, event, depth - 1);
			if (next.fault >= wanted || !path.empty()) {
				path.push_back(event);
				return found;
			}
		}
		return known[key] = found;
	}
};

// ---- a history in words: A2 is the database A on timeline 2, 65:3 the token 3 of epoch 65

std::string
name_of(const World &world, int server)
{
	return static_cast<char>('A' + world.server[server].line) +
		std::to_string(world.server[server].timeline);
}

std::string
token_name(std::int64_t token)
{
	return std::to_string(epoch_of(token)) + ":" +
		std::to_string(token - start_of_epoch(epoch_of(token)));
}

// Whose record, and with which lead.
std::string
record_name(const World &world, std::int64_t record)
{
	Origin origin = unpack(record);
	char line = '?';

	for (int i = 0; i < world.lines; i++)
		if (short_identity(identity_of(i)) == origin.identity)
			line = static_cast<char>('A' + i);
	return std::string("record ") + line + std::to_string(origin.lead);
}

std::string
describe(const World &before, const World &after, const Event &event)
{
	static constexpr const char *goals_in_words[goals] = {"by 3 tokens",
		"to the last token but one of its epoch", "into the next epoch",
		"into the epoch after next"};
	static constexpr const char *kinds_in_words[] = {
		"draw", "fast_forward", "crash: skips 2 tokens", "promote from", "copy at"};
	const Position &last = after.position[after.positions - 1];
	std::string text =
		"  " + name_of(before, event.server) + " " + kinds_in_words[static_cast<int>(event.kind)];

	if (event.kind == Kind::promote || event.kind == Kind::copy) {
		const Position &from = event.kind == Kind::promote
			? before.position[event.choice]
			: before.position[before.server[event.server].last];
		text += " " + token_name(from.value) + ", " + record_name(before, from.record) + " -> " +
			name_of(after, after.servers - 1);
	}
	if (event.kind == Kind::fast_forward)
		text += std::string(" ") + goals_in_words[event.choice];
	if (event.count > 0 && event.kind <= Kind::fast_forward)
		text += ", crash at " + token_name(last.value) + ", " + record_name(after, last.record);
	else if (event.kind <= Kind::skip)
		text += " -> " + token_name(last.value);
	if (event.rolled_back)
		text += ", ROLLBACK";
	return text + "\n";
}

struct Outcome {
	double histories = 0;
	std::string fault{}; // a history that leads to one
};

Outcome
enumerate(const Rule &rule, const Bounds &bounds, int timeline, Fault wanted)
{
	World world = create_extension(rule, timeline);
	Search search = {rule, bounds, wanted};
	Outcome outcome = {search.all_histories(world, bounds.depth)};

	if (search.path.empty())
		return outcome;
	outcome.fault = "\n  " + name_of(world, 0) + " CREATE EXTENSION\n";
	for (auto event = search.path.rbegin(); event != search.path.rend(); ++event) {
		World before = world;

		(void)happens(&world, rule, bounds, *event);
		outcome.fault += describe(before, world, *event);
	}
	return outcome;
}

// Depth after depth: no history is shorter than the one that this finds.
Outcome
enumerate_shortest_first(const Rule &rule, Bounds bounds, int timeline, Fault wanted)
{
	Outcome outcome;
	int most = bounds.depth;

	for (bounds.depth = 2; bounds.depth <= most && outcome.fault.empty(); bounds.depth++)
		outcome = enumerate(rule, bounds, timeline, wanted);
	return outcome;
}

// ---- the rules that are wrong

// A jump from wherever the sequence stands, when identity or timeline are not the recorded ones.
std::int64_t
timeline_record(std::uint64_t identity, std::int64_t, std::int64_t timeline)
{
	return pack({identity, timeline});
}

std::int64_t
next_epoch_target(
	std::int64_t record, std::uint64_t identity, std::int64_t timeline, std::int64_t last_token)
{
	return epoch_of(last_token) + (record == pack({identity, timeline}) ? 0 : 1);
}

bool
is_copy(std::int64_t record, std::uint64_t identity)
{
	return unpack(record).identity != short_identity(identity);
}

std::int64_t
near_copy_target(
	std::int64_t record, std::uint64_t identity, std::int64_t timeline, std::int64_t last_token)
{
	std::int64_t target = right_target(record, identity, timeline, last_token);

	return is_copy(record, identity) ? target - copy_distance : target;
}

std::int64_t
copy_without_timeline_target(
	std::int64_t record, std::uint64_t identity, std::int64_t timeline, std::int64_t last_token)
{
	std::int64_t target = right_target(record, identity, timeline, last_token);

	return is_copy(record, identity) ? target - timeline : target;
}

std::int64_t
leadless_target(
	std::int64_t record, std::uint64_t identity, std::int64_t timeline, std::int64_t last_token)
{
	return is_copy(record, identity) ? right_target(record, identity, timeline, last_token)
									 : std::max(timeline - 1, epoch_of(last_token));
}

// ---- the tests

constexpr int depth_of_faults = 6;

void
expect_twice(const Rule &rule, const Bounds &bounds)
{
	Outcome outcome = enumerate_shortest_first(rule, bounds, 1, Fault::twice);

	EXPECT_NE(outcome.fault, "") << "none in " << outcome.histories << " histories";
	::testing::Test::RecordProperty("shortest", outcome.fault);
}

void
expect_no_fault(const Bounds &bounds, int timeline, double histories)
{
	Outcome outcome = enumerate(right_rule, bounds, timeline, Fault::disordered);

	if (!outcome.fault.empty())
		outcome = enumerate_shortest_first(right_rule, bounds, timeline, Fault::disordered);
	EXPECT_TRUE(outcome.fault.empty()) << outcome.fault;
	// So many, or the enumeration leaves out what it should not.
	EXPECT_GE(outcome.histories, histories);
}

// I1: no token twice, and each successor and copy above all of its ancestors.
TEST(EpochModel, NoTokenTwiceAndSuccessorsAboveAncestors)
{
	expect_no_fault({7}, 1, 100e6);
}

// On a late timeline an epoch that is far from the 0 of the sequence comes with the first draw.
TEST(EpochModel, NoTokenTwiceWhenInstalledOnALateTimeline)
{
	expect_no_fault({6}, 70, 1e6);
}

constexpr Bounds plain = [] {
	Bounds bounds = {depth_of_faults};

	bounds.only_plain = true;
	return bounds;
}();

TEST(EpochModel, FailsWithAJumpFromWhereTheSequenceStands)
{
	expect_twice({timeline_record, next_epoch_target}, plain);
}

TEST(EpochModel, FailsWithoutTheDistanceOfACopy)
{
	expect_twice({right_record, near_copy_target}, plain);
}

TEST(EpochModel, FailsWhenACopyForgetsItsTimeline)
{
	expect_twice({right_record, copy_without_timeline_target}, plain);
}

TEST(EpochModel, FailsWithoutTheLead)
{
	expect_twice({right_record, leadless_target}, plain);
}

TEST(EpochModel, FailsWhenTheSequenceIsRaisedBeforeTheRecord)
{
	Rule rule = right_rule;

	rule.raise_first = true;
	expect_twice(rule, {depth_of_faults});
}

TEST(EpochModel, FailsWhenTheRecordIsRolledBack)
{
	Rule rule = right_rule;

	rule.in_a_row = true;
	expect_twice(rule, {depth_of_faults});
}

TEST(EpochModel, FailsWhenTheRaiseIsNotRepeatedAfterACrash)
{
	Rule rule = right_rule;

	rule.raise_once = true;
	expect_twice(rule, {depth_of_faults});
}

// What no server can see: where the promise ends, and an operator has to call fast_forward. Each of
// these is needed: without it the enumeration finds a token handed out twice.
TEST(EpochModel, CannotSeeASecondCopyOfOneSource)
{
	Bounds bounds = {depth_of_faults};

	bounds.two_copies = true;
	expect_twice(right_rule, bounds);
}

TEST(EpochModel, CannotSeeACopyOfACopyThatHasNotDrawn)
{
	Bounds bounds = {depth_of_faults};

	bounds.undrawn_copy = true;
	expect_twice(right_rule, bounds);
}

TEST(EpochModel, CannotSeeTwoPromotionsFromOneTimeline)
{
	Bounds bounds = {depth_of_faults};

	bounds.shared_timeline = true;
	expect_twice(right_rule, bounds);
}

TEST(EpochModel, CannotSeeALostFastForward)
{
	Bounds bounds = {depth_of_faults};

	bounds.lost_fast_forward = true;
	expect_twice(right_rule, bounds);
}

TEST(EpochModel, CannotSeeALostStepOverTheEndOfAnEpoch)
{
	Bounds bounds = {depth_of_faults};

	bounds.lost_crossing = true;
	expect_twice(right_rule, bounds);
}

// The copy's own timeline, 1 or more, comes on top of the distance.
TEST(EpochModel, CannotSeeASourceThatIsPromotedMoreOftenThanTheDistance)
{
	Bounds bounds = {depth_of_faults};

	bounds.promotions_of_source = 65;
	expect_twice(right_rule, bounds);
}

} // namespace
