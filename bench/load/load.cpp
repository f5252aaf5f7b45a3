// SPDX-License-Identifier: PostgreSQL
// load.cpp: what pgbench is for PostgreSQL, for the other lock services: so many clients, each with a
// connection and a thread of its own, ask for random resources one after the other.
//
//     load SERVICE ADDRESS prepare RESOURCES
//     load SERVICE ADDRESS seconds|calls HOW_MANY CLIENTS RESOURCES
//
// Prints calls, grants, seconds, and the seconds of processor time that the clients themselves took.
#include "client.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<Client>
connect(const std::string &service, const std::string &address)
{
	if (service == "redis")
		return redis_client(address);
	if (service == "etcd")
		return etcd_client(address);
	if (service == "zookeeper")
		return zookeeper_client(address);
	throw std::invalid_argument("there is no service " + service);
}

double
cpu_seconds()
{
	rusage used;
	getrusage(RUSAGE_SELF, &used);
	return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
		(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

struct Load {
	bool timed;
	long how_many; // seconds, or calls of each client
	int clients;
	int resources;
};

void
run(const std::string &service, const std::string &address, const Load &load)
{
	// All connections first: making them is not what is measured.
	std::vector<std::unique_ptr<Client>> clients;
	for (int number = 0; number < load.clients; number++)
		clients.push_back(connect(service, address));

	std::atomic<long> calls{0}, grants{0};
	const double cpu_before = cpu_seconds();
	const Clock::time_point start = Clock::now();
	const Clock::time_point end = start + std::chrono::seconds(load.timed ? load.how_many : 0);
	std::vector<std::thread> threads;
	for (int number = 0; number < load.clients; number++)
		threads.emplace_back([&, number] {
			std::mt19937 random(std::random_device{}());
			std::uniform_int_distribution<int> any(0, load.resources - 1);
			long called = 0, granted = 0;
			while (load.timed ? Clock::now() < end : called < load.how_many) {
				called++;
				granted += clients[number]->grant(any(random));
			}
			calls += called;
			grants += granted;
		});
	for (std::thread &thread : threads)
		thread.join();
	const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
	std::printf(
		"%ld %ld %.6f %.6f\n", calls.load(), grants.load(), elapsed, cpu_seconds() - cpu_before);
}

} // namespace

int
main(int argc, char **argv)
{
	const std::vector<std::string> given(argv + 1, argv + argc);
	try {
		if (given.size() == 4 && given[2] == "prepare")
			connect(given[0], given[1])->prepare(std::stoi(given[3]));
		else if (given.size() == 6 && (given[2] == "seconds" || given[2] == "calls"))
			run(given[0], given[1],
				{given[2] == "seconds", std::stol(given[3]), std::stoi(given[4]),
					std::stoi(given[5])});
		else
			throw std::invalid_argument("see the head of load.cpp for the arguments");
	} catch (const std::exception &failure) {
		std::fprintf(stderr, "load: %s\n", failure.what());
		return 1;
	}
}
