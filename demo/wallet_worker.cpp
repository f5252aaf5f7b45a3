// wallet_worker.cpp: one worker of the demo. It takes the lease of a wallet, reads the wallet and its
// ledger, waits for the fraud check, and books one payment, presenting its token with the write.
//
//   wallet_worker NAME WALLET TTL KIND AMOUNT MEMO     the connection comes from PGHOST, PGDATABASE, ...
//
//   stdin   the fraud check, a slow service somewhere else: one line is its verdict
//   stdout  what happens, one event on a line: word, tab, text
//   status  0 booked, 3 refused because the token is stale, 1 anything else
//
// The worker knows nothing of the guard: whether its late write passes is decided by the table.
//
// SPDX-License-Identifier: PostgreSQL

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "database.h"

namespace {

constexpr int exit_booked = 0;
constexpr int exit_failed = 1;
constexpr int exit_stale = 3;

struct Job {
	std::string worker;
	std::string wallet;
	std::string ttl;
	std::string kind;
	std::string amount;
	std::string memo;

	std::string
	resource() const
	{
		return "wallet:" + wallet;
	}
};

void
tell(const char *event, const std::string &text)
{
	std::cout << event << '\t' << text << std::endl;
}

// Amounts are numeric(12,2), so their text is the cents with a point before the last two digits.
struct Cents {
	std::int64_t value;
};

Cents
parse_cents(std::string text)
{
	text.erase(text.size() - 3, 1);
	return {std::strtoll(text.c_str(), nullptr, 10)};
}

std::string
to_text(Cents amount)
{
	const auto size = std::llabs(amount.value);
	const auto cents = std::to_string(size % 100);
	return (amount.value < 0 ? "-" : "") + std::to_string(size / 100) + '.' +
		(cents.size() == 1 ? "0" : "") + cents;
}

// Waits up to ten seconds for the lease; returns its token, or nothing if somebody else kept it.
// Outside a transaction block, so the grant is committed before anything is read.
std::string
acquire(Database &database, const Job &job)
{
	tell("asks", "asks for the lease of " + job.resource());
	const auto lease = database.run("SELECT token FROM fencing.acquire($1, ttl => $2::interval, "
									"holder => $3, wait => '10 seconds')",
		{job.resource(), job.ttl, job.worker});
	if (lease.count() == 0)
		return {};
	auto token = lease.text(0, 0);
	tell("granted", "is granted token " + token + " for " + job.ttl);
	return token;
}

// The balance, once the ledger has confirmed it.
Cents
read_balance(Database &database, const Job &job)
{
	const auto wallet = database.run("SELECT balance FROM wallet WHERE id = $1", {job.wallet});
	const auto ledger =
		database.run("SELECT amount FROM ledger WHERE wallet_id = $1 ORDER BY id", {job.wallet});
	if (wallet.count() != 1)
		throw SqlError{{}, "there is no wallet " + job.wallet, {}, {}};

	const auto balance = parse_cents(wallet.text(0, 0));
	Cents sum{0};
	for (int row = 0; row < ledger.count(); row++)
		sum.value += parse_cents(ledger.text(row, 0)).value;
	if (sum.value != balance.value)
		throw SqlError{{}, "the ledger of wallet " + job.wallet + " does not add up", {}, {}};

	tell("reads",
		"reads balance " + to_text(balance) + ", the sum of " + std::to_string(ledger.count()) +
			" ledger entries");
	return balance;
}

bool
pass_fraud_check()
{
	std::string verdict;
	return std::getline(std::cin, verdict) && verdict == "approved";
}

// Entry and balance in one transaction: both or neither.
void
book(Database &database, const Job &job, const std::string &token, Cents balance)
{
	database.run("BEGIN");
	database.run("INSERT INTO ledger (wallet_id, kind, amount, memo) VALUES ($1, $2, $3, $4)",
		{job.wallet, job.kind, job.amount, job.memo});
	const auto update =
		database.run("UPDATE wallet SET balance = $1, fence_token = $2 WHERE id = $3",
			{to_text(balance), token, job.wallet});
	database.run("COMMIT");
	tell("booked", "INSERT 1, UPDATE " + update.written() + ", COMMIT: no objection");
}

void
release(Database &database, const Job &job, const std::string &token)
{
	const auto answer =
		database.run("SELECT fencing.release($1, $2::bigint)", {job.resource(), token});
	const bool was_ours = answer.text(0, 0) == "t";
	tell("released", was_ours ? "releases the lease" : "releases the lease: too late, it was lost");
}

int
work(const Job &job)
{
	Database database;
	const auto token = acquire(database, job);
	if (token.empty()) {
		tell("failed", "gets no lease within ten seconds");
		return exit_failed;
	}

	const auto balance = read_balance(database, job);
	const auto amount = parse_cents(job.amount);
	const Cents after{balance.value + amount.value};
	tell("checks",
		"computes " + to_text(balance) + (amount.value < 0 ? " - " : " + ") +
			to_text({std::llabs(amount.value)}) + " = " + to_text(after) +
			" and waits for the fraud check");
	if (after.value < 0 || !pass_fraud_check()) {
		tell("failed", "declines the payment");
		return exit_failed;
	}

	tell("writes",
		"is cleared, writes entry " + job.amount + " and balance " + to_text(after) + ", token " +
			token);
	book(database, job, token, after);
	release(database, job, token);
	return exit_booked;
}

void
tell_error(const SqlError &error)
{
	tell("error", "ERROR " + error.sqlstate + ": " + error.message);
	if (!error.detail.empty())
		tell("detail", "DETAIL: " + error.detail);
	if (!error.hint.empty())
		tell("hint", "HINT: " + error.hint);
}

} // namespace

int
main(int count, char **arguments)
{
	if (count != 7) {
		std::cerr << "usage: wallet_worker NAME WALLET TTL KIND AMOUNT MEMO\n";
		return exit_failed;
	}
	const Job job{
		arguments[1], arguments[2], arguments[3], arguments[4], arguments[5], arguments[6]};
	try {
		return work(job);
	} catch (const SqlError &error) {
		tell_error(error);
		return error.sqlstate == "TK001" ? exit_stale : exit_failed;
	}
}
