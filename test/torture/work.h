// SPDX-License-Identifier: PostgreSQL
// work.h: one transaction of a holder, and what became of it.
#pragma once

#include <string>

#include "chance.h"
#include "database.h"
#include "history.h"
#include "options.h"

namespace torture {

// A tenure, current or lost: the worker does not always care.
struct Lease {
	std::string resource;
	bool outside = false; // the token comes from elsewhere
	std::int64_t token = 0;
	std::int64_t seq = 0; // that the holder has read, or written last
	bool lost = false;    // it has been told so
	bool fenced = true;   // the fence was raised before it read
};

class Work {
public:
	Work(Database &database, History &history, Chance &chance, const Options &options,
		const std::string &process)
		: database_(database), history_(history), chance_(chance), options_(options),
		  process_(process)
	{
	}

	// Reads what the work starts from.
	bool read(Lease &lease);

	// Writes several rows in one transaction. False when the tenure turned out to be lost, or
	// nothing is known of the transaction.
	bool write(Lease &lease);

	// Finds out what became of the transaction whose outcome is unknown, if there is one, and rolls
	// back what dead processes of this id have left prepared. Needs a connection; false: try again.
	bool settle();

	// Whether settle() has something to find out.
	bool
	owes() const
	{
		return !open_.op.empty();
	}

	// Whether an outcome has stayed unknown since this was asked last: what the holder has read may be
	// changed behind its back by itself.
	bool
	gave_up()
	{
		bool gave_up = gave_up_;

		gave_up_ = false;
		return gave_up;
	}

private:
	// What a transaction of its kind consists of.
	struct Plan {
		std::string op;
		std::string carry; // bind, column or setting
		std::string level;
		bool alone;     // one statement in autocommit
		bool prepares;  // PREPARE TRANSACTION
		bool gives_up;  // ROLLBACK in the end
		bool durable;   // synchronous_commit
		bool takes_seq; // updates the row of the resource
		int rows;       // in the logs, once committed
	};

	Plan plan(const Lease &lease);
	Answer statements(const Plan &plan, const Lease &lease);
	Answer rows(const Plan &plan, const Lease &lease);
	std::string insert(const Plan &plan, const Lease &lease, int part, bool plain);
	Answer finish(const Plan &plan);
	Answer finish_prepared(const Plan &plan);
	bool look_for_outcome();
	bool clean_up();
	std::string gid_of(const std::string &op) const;
	Answer end_prepared(const std::string &op, bool commit);

	Database &database_;
	History &history_;
	Chance &chance_;
	const Options &options_;
	const std::string &process_;
	std::string xid_;  // of the running transaction
	std::string life_; // of the server that runs it
	long works_ = 0;
	bool gave_up_ = false;

	// The transaction whose outcome is unknown; empty: none.
	struct Open {
		std::string op;
		std::string xid;
		bool outside = false;
		bool wants_commit = false; // of a prepared transaction: what was decided
		int backend = 0;           // that runs it; 0: not known
		int tries = 0;
	} open_;
};

} // namespace torture
