// worker RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with libpq. The page beside says what to mind.
//
//     g++ -std=c++17 -I "$(pg_config --includedir)" worker.cpp -o worker -lpq -pthread
#include <libpq-fe.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// An error of the server; the SQLSTATE is empty when the connection is lost.
struct Failure {
	std::string sqlstate;
	std::string message;
};

class Connection {
public:
	Connection() : connection_(PQconnectdb(""), PQfinish)
	{
		if (PQstatus(connection_.get()) != CONNECTION_OK)
			throw Failure{"", PQerrorMessage(connection_.get())};
	}

	// The first column of the first row; nothing when there is no row, or it is NULL.
	std::optional<std::string>
	run(const std::string &sql, const std::vector<std::string> &arguments = {})
	{
		std::vector<const char *> values;
		for (const std::string &argument : arguments)
			values.push_back(argument.c_str());
		std::unique_ptr<PGresult, decltype(&PQclear)> result(
			PQexecParams(connection_.get(), sql.c_str(), static_cast<int>(values.size()), nullptr,
				values.data(), nullptr, nullptr, 0),
			PQclear);
		const ExecStatusType status = PQresultStatus(result.get());
		if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
			const char *sqlstate = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
			throw Failure{sqlstate != nullptr ? sqlstate : "", PQerrorMessage(connection_.get())};
		}
		if (PQntuples(result.get()) == 0 || PQgetisnull(result.get(), 0, 0))
			return std::nullopt;
		return PQgetvalue(result.get(), 0, 0);
	}

private:
	std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

// Renews every third of the ttl, in a thread and on a connection of its own, until it is destroyed.
// A renewal that fails counts as a lost lease: nobody knows any more.
class Heartbeat {
public:
	Heartbeat(std::string resource, std::string token, double ttl)
		: thread_([this, resource, token, ttl] {
			  beat(resource, token, std::chrono::duration<double>(ttl / 3));
		  })
	{
	}

	~Heartbeat()
	{
		{
			std::lock_guard<std::mutex> lock(mutex_);
			stop_ = true;
		}
		wake_.notify_one();
		thread_.join();
	}

	bool
	lost() const
	{
		return lost_;
	}

private:
	void
	beat(const std::string &resource, const std::string &token, std::chrono::duration<double> pause)
	{
		try {
			Connection db;
			std::unique_lock<std::mutex> lock(mutex_);
			while (!wake_.wait_for(lock, pause, [this] { return stop_; }))
				if (!db.run("SELECT fencing.renew($1, $2)", {resource, token}))
					break;
		} catch (const Failure &failure) {
			std::cerr << failure.message;
		}
		std::lock_guard<std::mutex> lock(mutex_);
		if (!stop_)
			lost_ = true;
	}

	std::mutex mutex_;
	std::condition_variable wake_;
	bool stop_ = false;
	std::atomic<bool> lost_ = false;
	std::thread thread_; // last: it uses the others
};

// The work: yours goes here. It looks at the heartbeat now and then, and gives up when the lease is lost.
static std::optional<std::string>
work(const Heartbeat &heartbeat)
{
	pollfd input{STDIN_FILENO, POLLIN, 0};
	std::string line;
	while (!heartbeat.lost())
		if (poll(&input, 1, 50) > 0) {
			std::getline(std::cin, line);
			return line;
		}
	return std::nullopt;
}

// The whole transaction again when it fails with class 40, and on nothing else: TK001 must end the worker.
static void
write(Connection &db, const std::string &resource, const std::string &token,
	const std::string &holder, const std::string &body)
{
	for (;;) {
		try {
			db.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
			db.run("SELECT fencing.bind($1, $2)", {resource, token}); // fencing: comes first
			db.run("INSERT INTO report_log (name, holder) VALUES ($1, $2)", {resource, holder});
			db.run("UPDATE report SET body = $1, revision = revision + 1 WHERE name = $2",
				{body, resource});
			db.run("COMMIT");
			return;
		} catch (const Failure &failure) {
			if (!failure.sqlstate.empty())
				db.run("ROLLBACK"); // after a failed COMMIT a WARNING, no error
			if (failure.sqlstate != "40001" && failure.sqlstate != "40P01")
				throw;
		}
	}
}

int
main(int, char **arguments)
try {
	const std::string resource = arguments[1], holder = arguments[2], ttl = arguments[3];
	Connection db;
	const auto token =
		db.run("SELECT token FROM fencing.acquire($1, make_interval(secs => $2), $3, '10 seconds')",
			{resource, ttl, holder});
	if (!token) {
		std::cout << "busy" << std::endl;
		return 1;
	}
	std::cout << "granted " << *token << std::endl;

	bool written = false;
	{
		Heartbeat heartbeat(resource, *token, std::stod(ttl));
		try {
			const auto body = work(heartbeat);
			if (!body || heartbeat.lost())
				std::cout << "lost" << std::endl;
			else {
				write(db, resource, *token, holder, *body);
				written = true;
				std::cout << "written" << std::endl;
			}
		} catch (const Failure &failure) {
			std::cout << "refused " << failure.sqlstate << std::endl;
		}
	}
	db.run("SELECT fencing.release($1, $2)", {resource, *token});
	return written ? 0 : 1;
} catch (const Failure &failure) {
	std::cerr << failure.message;
	return 1;
}
