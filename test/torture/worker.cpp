// SPDX-License-Identifier: PostgreSQL
// worker.cpp: a worker that takes leases, works, is late, and does not always stop when it is told
// to: torture-worker. It decides nothing about right or wrong: it notes what it asked and was told.

#include <csignal>
#include <deque>

#include "work.h"

namespace torture {

namespace {

volatile std::sig_atomic_t ends = 0;

void
end_soon(int)
{
	ends = 1;
}

struct Resource {
	std::string name;
	bool outside;
};

class Worker {
public:
	explicit Worker(const Options &options)
		: options_(options),
		  process_(std::to_string(options.id) + '.' + std::to_string(now_ns() / 1'000'000)),
		  history_(options.history.c_str(), process_), chance_(options.seed),
		  database_(options.conninfo, history_),
		  work_(database_, history_, chance_, options_, process_),
		  deadline_(now_ns() + options.seconds * std::int64_t{1'000'000'000})
	{
	}

	int
	run()
	{
		while (!over()) {
			if (ready())
				round();
			else
				chance_.pause(5, 100);
		}
		// Nothing may stay prepared, and no outcome unknown that can be known.
		for (int tries = 0; tries < 300 && !ready(); tries++)
			chance_.pause(50, 150);
		return 0;
	}

private:
	bool
	over() const
	{
		return ends != 0 || now_ns() >= deadline_;
	}

	// Has a connection and no debts.
	bool
	ready()
	{
		bool fresh = !database_.connected();

		if (fresh && !database_.connect())
			return false;
		// Only a connection that was lost leaves something behind; a prepared transaction may have
		// been left by a backend that was still busy.
		if (fresh || work_.owes())
			settled_ = false;
		if (!settled_)
			settled_ = work_.settle();
		return settled_ && (!resources_.empty() || list_resources());
	}

	// A promotion or a restart may take its time.
	bool
	come_back()
	{
		for (int tries = 0; tries < 300 && !over(); tries++) {
			if (ready())
				return !work_.gave_up();
			chance_.pause(20, 80);
		}
		return false;
	}

	bool list_resources();
	void round();
	void draw();
	void look_up(const Resource &resource);
	bool acquire(Lease &lease);
	bool acquire_in_block(const std::string &call, Lease &lease);
	bool advance(Lease &lease);
	Answer present(const char *verb, const char *test, const Lease &lease);
	bool renew(Lease &lease);
	void release(const Lease &lease);
	void use(Lease lease);
	void haunt();
	void write_bare(const Lease &lease);

	Options options_;
	std::string process_;
	History history_;
	Chance chance_;
	Database database_;
	Work work_;
	std::int64_t deadline_;
	bool settled_ = false;
	std::vector<Resource> resources_;
	std::deque<Lease> ghosts_; // earlier tenures, not forgotten
};

bool
Worker::list_resources()
{
	Answer answer =
		database_.run("SELECT (SELECT count(*) FROM state), (SELECT count(*) FROM state_outside)");

	if (!answer.ok())
		return false;
	for (int i = 1; i <= std::stoi(answer.row[0]); i++)
		resources_.push_back({"own-" + std::to_string(i), false});
	for (int i = 1; i <= std::stoi(answer.row[1]); i++)
		resources_.push_back({"outside-" + std::to_string(i), true});
	return !resources_.empty();
}

void
Worker::round()
{
	if (chance_.percent(options_.draws)) {
		draw();
		return;
	}
	if (!ghosts_.empty() && chance_.percent(15)) {
		haunt();
		return;
	}

	const Resource &resource = chance_.one_of(resources_);
	Lease lease;

	lease.resource = resource.name;
	lease.outside = resource.outside;
	if (chance_.percent(20))
		look_up(resource);
	if (lease.outside ? advance(lease) : acquire(lease))
		use(lease);
	else
		chance_.pause(0, options_.pause_ms / 5);
}

// Tokens that nobody keeps, most of them in a transaction that is rolled back.
void
Worker::draw()
{
	bool block = chance_.percent(70);
	int count = chance_.between(1, 40);

	if (block)
		database_.run("BEGIN");
	for (int i = 0; i < count && database_.connected(); i++) {
		long request = history_.invoke("draw");
		Answer answer = database_.run("SELECT fencing.next_token()");

		history_.answer(request, answer.ok() ? "ok token=" + answer.row[0] : answer.text());
	}
	if (block)
		database_.run("ROLLBACK");
}

void
Worker::look_up(const Resource &resource)
{
	long request = history_.invoke("lookup resource=" + resource.name);
	Answer answer = database_.run(
		"SELECT coalesce((SELECT token FROM fencing.lookup('" + resource.name + "')), 0), life()");

	history_.answer(request,
		answer.ok() ? "ok fence=" + answer.row[0] + " life=" + answer.row[1] : answer.text());
}

bool
Worker::acquire(Lease &lease)
{
	static const char *const steals[] = {"never", "never", "never", "same_holder", "always"};
	std::string steal = chance_.one_of(steals);
	int ttl_ms = chance_.between(20, 4 * options_.pause_ms);
	int wait_ms = chance_.percent(50) ? 0 : chance_.between(1, 500);
	std::string call = "SELECT token, life() FROM fencing.acquire('" + lease.resource + "', '" +
		std::to_string(ttl_ms) + " ms', 'worker " + std::to_string(options_.id) + "', '" +
		std::to_string(wait_ms) + " ms', '" + steal + "')";

	if (chance_.percent(10))
		return acquire_in_block(call, lease);

	long request = history_.invoke("acquire resource=" + lease.resource + " steal=" + steal);
	Answer answer = database_.run(call);

	if (!answer.ok() || answer.row.empty()) {
		history_.answer(request, answer.text());
		return false;
	}
	history_.answer(request, "ok token=" + answer.row[0] + " life=" + answer.row[1]);
	lease.token = std::stoll(answer.row[0]);
	return true;
}

// A grant counts when it has been committed; its token is never handed out again in any case.
bool
Worker::acquire_in_block(const std::string &call, Lease &lease)
{
	bool commit = chance_.percent(60);

	if (!database_.run("BEGIN").ok())
		return false;

	long request = history_.invoke("acquire resource=" + lease.resource + " open=1");
	Answer answer = database_.run(call);
	bool granted = answer.ok() && !answer.row.empty();

	history_.answer(
		request, granted ? "ok token=" + answer.row[0] + " life=" + answer.row[1] : answer.text());
	if (!granted || !commit) {
		database_.run("ROLLBACK");
		return false;
	}
	lease.token = std::stoll(answer.row[0]);

	long end = history_.invoke("keep of=" + std::to_string(request));

	answer = database_.run("COMMIT");
	history_.answer(end, answer.text());
	return answer.ok() && answer.tag == "COMMIT";
}

// The other service that issues these tokens is a clock that all workers share, and a number for
// each worker.
bool
Worker::advance(Lease &lease)
{
	lease.token = now_ns() / 1000 * 64 + options_.id % 64;
	// The first write of the holder may raise the fence by itself: too late for what it has read.
	if (chance_.percent(25)) {
		lease.fenced = false;
		return true;
	}
	if (chance_.percent(10))
		chance_.pause(0, options_.pause_ms);

	long request = history_.invoke(
		"advance resource=" + lease.resource + " token=" + std::to_string(lease.token));
	Answer answer = database_.run("SELECT fencing.advance('" + lease.resource + "', " +
		std::to_string(lease.token) + "), life()");

	history_.answer(request, answer.ok() ? "ok life=" + answer.row[1] : answer.text());
	return answer.ok();
}

// renew or release: whether it was still the lease's.
Answer
Worker::present(const char *verb, const char *test, const Lease &lease)
{
	long request = history_.invoke(
		verb + (" resource=" + lease.resource) + " token=" + std::to_string(lease.token));
	Answer answer = database_.run(std::string("SELECT fencing.") + verb + "('" + lease.resource +
		"', " + std::to_string(lease.token) + ")" + test + ", life()");

	history_.answer(request,
		answer.ok() ? "ok value=" + answer.row[0] + " life=" + answer.row[1] : answer.text());
	return answer;
}

bool
Worker::renew(Lease &lease)
{
	Answer answer = present("renew", " IS NOT NULL", lease);

	if (answer.ok() && answer.row[0] == "f")
		lease.lost = true;
	return answer.ok();
}

void
Worker::release(const Lease &lease)
{
	(void)present("release", "", lease);
}

// The real cycle: read, work, write, renew, and in the end release, or just stop.
void
Worker::use(Lease lease)
{
	int works = chance_.between(1, 4);

	work_.gave_up();

	for (int i = 0; i < works && !over(); i++) {
		if (!database_.connected() || work_.owes()) {
			// A worker that was cut off goes on where it was, if it can.
			if (chance_.percent(50) || !come_back())
				break;
			i = 0;
		}
		if ((i == 0 || chance_.percent(30)) && !work_.read(lease))
			break;
		if (chance_.percent(30))
			chance_.pause(0, options_.pause_ms);
		if (!lease.outside && chance_.percent(30))
			renew(lease);
		// Told that it is lost, it stops. Often.
		if (lease.lost && chance_.percent(70))
			break;
		if (!work_.write(lease) && !lease.lost && database_.connected() && !work_.read(lease))
			break;
	}
	if (!lease.outside && database_.connected() && chance_.percent(60))
		release(lease);
	ghosts_.push_back(lease);
	if (ghosts_.size() > 20)
		ghosts_.erase(ghosts_.begin() + chance_.between(0, 19));
}

// An old tenure comes back and goes on as if nothing had been.
void
Worker::haunt()
{
	Lease lease = chance_.one_of(ghosts_);

	lease.lost = true;
	// Where nobody has come, it is no ghost: what it has read may have been changed by itself.
	lease.fenced = false;
	switch (chance_.between(1, 8)) {
	case 1:
		if (!lease.outside)
			renew(lease);
		break;
	case 2:
		if (!lease.outside)
			release(lease);
		break;
	case 3:
		write_bare(lease);
		break;
	default:
		work_.write(lease);
	}
}

// A write that carries no token at all.
void
Worker::write_bare(const Lease &lease)
{
	long request = history_.invoke("bare resource=" + lease.resource);
	Answer answer = database_.run("UPDATE state" + std::string(lease.outside ? "_outside" : "") +
		" SET op = 'bare' WHERE resource = '" + lease.resource + "'");

	history_.answer(request, answer.text());
}

} // namespace

} // namespace torture

int
main(int argc, char **argv)
{
	struct sigaction action = {};

	action.sa_handler = torture::end_soon;
	sigaction(SIGTERM, &action, nullptr);
	sigaction(SIGINT, &action, nullptr);
	std::signal(SIGPIPE, SIG_IGN);
	return torture::Worker(torture::options_of(argc, argv)).run();
}
