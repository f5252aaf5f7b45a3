// SPDX-License-Identifier: PostgreSQL
// handover.cpp: how long it takes from the answer to a release to the grant of who waits for it.
//
//     handover KIND WAITERS TIMES
//
// KIND is fencing (acquire and release) or advisory (pg_advisory_lock and pg_advisory_unlock); the
// server is the one of the environment. With one waiter each line is a hand-over, in microseconds.
// With more, a line is the time from the first release until the last of them has had its turn:
// each releases as soon as it is granted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <libpq-fe.h>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

class Session {
public:
	Session() : m_connection(PQconnectdb(""), PQfinish)
	{
		if (PQstatus(m_connection.get()) != CONNECTION_OK)
			fail();
	}

	// The only value of the answer; empty when there is no row.
	std::string
	ask(const std::string &sql)
	{
		const std::unique_ptr<PGresult, void (*)(PGresult *)> result(
			PQexec(m_connection.get(), sql.c_str()), PQclear);
		if (PQresultStatus(result.get()) != PGRES_TUPLES_OK)
			fail();
		return PQntuples(result.get()) ? PQgetvalue(result.get(), 0, 0) : "";
	}

	int
	backend() const
	{
		return PQbackendPID(m_connection.get());
	}

private:
	void
	fail()
	{
		throw std::runtime_error(PQerrorMessage(m_connection.get()));
	}

	std::unique_ptr<PGconn, void (*)(PGconn *)> m_connection;
};

// A session that takes the lock, and gives it back.
class Holder {
public:
	explicit Holder(bool fencing) : m_fencing(fencing)
	{
	}

	void
	take()
	{
		m_token = m_session.ask(m_fencing
				? "SELECT token FROM fencing.acquire('hand-over', '10 minutes', wait => '1 minute')"
				: "SELECT 1 FROM (SELECT pg_advisory_lock(1)) taken");
		m_taken = Clock::now();
		if (m_token.empty())
			throw std::runtime_error("the resource was not handed over");
	}

	void
	give()
	{
		const std::string answer =
			m_session.ask(m_fencing ? "SELECT fencing.release('hand-over', " + m_token + ")"
									: "SELECT pg_advisory_unlock(1)");
		m_given = Clock::now();
		if (answer != "t")
			throw std::runtime_error("the release found no lease");
	}

	int
	backend() const
	{
		return m_session.backend();
	}

	Clock::time_point m_taken, m_given;

private:
	const bool m_fencing;
	Session m_session;
	std::string m_token;
};

// Until all the waiters sleep in their call, whatever on.
void
until_waiting(Session &monitor, const std::vector<std::unique_ptr<Holder>> &waiters)
{
	std::string backends;
	for (const auto &waiter : waiters)
		backends += (backends.empty() ? "" : ",") + std::to_string(waiter->backend());
	const Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
	while (monitor.ask("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' "
					   "AND wait_event IS NOT NULL AND pid IN (" +
			   backends + ")") != std::to_string(waiters.size())) {
		if (Clock::now() > deadline)
			throw std::runtime_error("not all of them wait");
		std::this_thread::sleep_for(std::chrono::milliseconds(2));
	}
}

// Who waits may look now and then only: the release must not keep step with that.
void
fall_out_of_step(std::mt19937 &random)
{
	std::this_thread::sleep_for(
		std::chrono::microseconds(std::uniform_int_distribution<int>(0, 20000)(random)));
}

void
hand_over(bool fencing, int count, int times)
{
	Session monitor;
	Holder first(fencing);
	std::vector<std::unique_ptr<Holder>> waiters;
	for (int number = 0; number < count; number++)
		waiters.push_back(std::make_unique<Holder>(fencing));
	std::mt19937 random(std::random_device{}());

	for (int time = 0; time < times; time++) {
		first.take();
		std::vector<std::thread> threads;
		std::vector<std::exception_ptr> failures(count);
		for (int number = 0; number < count; number++)
			threads.emplace_back([&, number] {
				try {
					waiters[number]->take();
					waiters[number]->give();
				} catch (...) {
					failures[number] = std::current_exception();
				}
			});
		std::exception_ptr failure;
		try {
			until_waiting(monitor, waiters);
			fall_out_of_step(random);
			first.give();
		} catch (...) {
			failure = std::current_exception();
		}
		for (std::thread &thread : threads)
			thread.join();
		failures.push_back(failure);
		for (const std::exception_ptr &one : failures)
			if (one)
				std::rethrow_exception(one);
		Clock::time_point last = first.m_given;
		for (const auto &waiter : waiters)
			last = std::max(last, waiter->m_taken);
		// With one waiter, its grant may be known before the releaser hears of its own COMMIT.
		if (count == 1)
			last = waiters[0]->m_taken;
		std::printf(
			"%.1f\n", std::chrono::duration<double, std::micro>(last - first.m_given).count());
	}
}

} // namespace

int
main(int argc, char **argv)
{
	try {
		if (argc != 4)
			throw std::invalid_argument("see the head of handover.cpp for the arguments");
		hand_over(argv[1] == std::string("fencing"), std::stoi(argv[2]), std::stoi(argv[3]));
	} catch (const std::exception &failure) {
		std::fprintf(stderr, "handover: %s\n", failure.what());
		return 1;
	}
}
