// SPDX-License-Identifier: PostgreSQL
// work.cpp: the transactions of a holder, drawn by chance.
//
// What it writes is computed from what it has read, as a real worker would: `seq` of the resource is
// written as the number read before plus one, never as `seq + 1`.

#include "work.h"

namespace torture {

namespace {

// So often is an outcome looked for.
constexpr int most_tries = 300;

std::string
quoted(const std::string &text)
{
	return '\'' + text + '\'';
}

std::string
suffix(const Lease &lease)
{
	return lease.outside ? "_outside" : "";
}

} // namespace

bool
Work::read(Lease &lease)
{
	long request = history_.invoke(
		"read resource=" + lease.resource + " token=" + std::to_string(lease.token));
	Answer answer = database_.run("SELECT seq, pg_current_snapshot(), life() FROM state" +
		suffix(lease) + " WHERE resource = " + quoted(lease.resource));

	if (!answer.ok() || answer.row.size() != 3) {
		history_.answer(request, answer.text());
		return false;
	}
	lease.seq = std::stoll(answer.row[0]);
	history_.answer(request,
		"ok seq=" + answer.row[0] + " snapshot=" + answer.row[1] + " life=" + answer.row[2]);
	return true;
}

Work::Plan
Work::plan(const Lease &lease)
{
	static const char *const carries[] = {"bind", "column", "setting"};
	static const char *const levels[] = {
		"READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
	Plan plan;

	plan.op = process_ + '.' + std::to_string(++works_);
	plan.carry = chance_.one_of(carries);
	plan.level = chance_.one_of(levels);
	plan.alone = chance_.percent(20);
	plan.prepares = !plan.alone && options_.prepared && chance_.percent(15);
	plan.gives_up = !plan.alone && chance_.percent(7);
	// A fence that is raised by sight is only as durable as the write that raised it.
	plan.durable = plan.alone || lease.outside || !chance_.percent(10);
	plan.takes_seq = !plan.alone && lease.fenced && chance_.percent(60);
	plan.rows = plan.alone ? 1 : chance_.between(1, 4);
	if (plan.alone && plan.carry == "setting")
		plan.carry = "column"; // SET LOCAL needs a transaction
	return plan;
}

std::string
Work::insert(const Plan &plan, const Lease &lease, int part, bool plain)
{
	bool with_token = plain || plan.carry == "column" || chance_.percent(30);
	std::string seq = plan.takes_seq && part == 0 ? std::to_string(lease.seq + 1) : "NULL";
	std::string table = plain ? "log_plain" : "log" + suffix(lease);
	std::string sql = "INSERT INTO " + table + " (op, part, resource, seq, worker" +
		(with_token ? ", token" : "") + ") SELECT " + quoted(plan.op) + ", " +
		std::to_string(part) + ", " + quoted(lease.resource) + ", " + seq + "::bigint, " +
		std::to_string(options_.id);

	if (with_token)
		sql += ", " + std::to_string(lease.token);
	if (plan.alone && plan.carry == "bind")
		sql += " FROM fencing.bind(" + quoted(lease.resource) + ", " + std::to_string(lease.token) +
			")";
	return sql;
}

// The writes, some of them under savepoints.
Answer
Work::rows(const Plan &plan, const Lease &lease)
{
	Answer answer;

	for (int part = 0; part < plan.rows; part++) {
		bool plain = plan.carry == "bind" && chance_.percent(40);
		int savepoint =
			chance_.between(1, 10); // 1: one that is rolled back, 2: one that is released

		if (savepoint <= 2 && !(answer = database_.run("SAVEPOINT a")).ok())
			return answer;
		if (savepoint == 1) {
			answer = database_.run(insert(plan, lease, 100 + part, plain));
			if (!answer.ok() || !(answer = database_.run("ROLLBACK TO SAVEPOINT a")).ok())
				return answer;
		}
		if (!(answer = database_.run(insert(plan, lease, part, plain))).ok())
			return answer;
		if (savepoint == 2 && !(answer = database_.run("RELEASE SAVEPOINT a")).ok())
			return answer;
		if (chance_.percent(10))
			chance_.pause(0, options_.pause_ms);
	}
	return answer;
}

Answer
Work::statements(const Plan &plan, const Lease &lease)
{
	const std::string token = std::to_string(lease.token);
	const std::string where = " WHERE resource = " + quoted(lease.resource);
	Answer answer = database_.run("BEGIN ISOLATION LEVEL " + plan.level);

	if (answer.ok() && !plan.durable)
		answer = database_.run("SET LOCAL synchronous_commit = off");
	if (answer.ok())
		answer = database_.run("SELECT pg_current_xact_id(), life()");
	if (answer.ok()) {
		xid_ = answer.row[0];
		life_ = answer.row[1];
	}
	if (answer.ok() && plan.carry == "bind")
		answer =
			database_.run("SELECT fencing.bind(" + quoted(lease.resource) + ", " + token + ")");
	if (answer.ok() && plan.carry == "setting")
		answer = database_.run("SET LOCAL fencing.token = " + token);
	if (answer.ok())
		answer = rows(plan, lease);
	if (answer.ok() && plan.takes_seq)
		answer = database_.run("UPDATE state" + suffix(lease) +
			" SET seq = " + std::to_string(lease.seq + 1) + ", op = " + quoted(plan.op) +
			(plan.carry == "column" ? ", token = " + token : "") + where);
	if (answer.ok() && chance_.percent(20))
		answer = database_.run("UPDATE state_row SET op = " + quoted(plan.op) +
			(plan.carry == "setting" ? "" : ", token = " + token) + where);
	// The sleeper that is to be found out at COMMIT.
	if (answer.ok() && chance_.percent(25))
		chance_.pause(0, 4 * options_.pause_ms);
	return answer;
}

bool
Work::write(Lease &lease)
{
	Plan plan = this->plan(lease);
	long request = history_.invoke("work op=" + plan.op + " resource=" + lease.resource +
		" token=" + std::to_string(lease.token) + " rows=" + std::to_string(plan.rows) +
		" carry=" + plan.carry + " level=" +
		(plan.alone
				? "autocommit"
				: std::string(1, plan.level[0]) + plan.level.substr(plan.level.find(' ') + 1, 1)) +
		" durable=" + (plan.durable ? "1" : "0") + " lost=" + (lease.lost ? "1" : "0"));
	Answer answer;

	xid_.clear();
	answer.fate = Fate::ok;
	if (!plan.alone)
		answer = statements(plan, lease);
	history_.answer(request, answer.ok() && !plan.alone ? "ok life=" + life_ : answer.text());
	if (!answer.ok() || plan.gives_up) {
		database_.run("ROLLBACK");
	} else {
		open_ = {plan.op, xid_, lease.outside, true, options_.pooled ? 0 : database_.backend(), 0};
		if (plan.alone) {
			request = history_.invoke("commit op=" + plan.op);
			answer =
				database_.run(insert(plan, lease, 0, plan.carry == "bind" && chance_.percent(50)));
			history_.answer(request, answer.text());
		} else {
			answer = plan.prepares ? finish_prepared(plan) : finish(plan);
		}
		if (answer.fate != Fate::unknown)
			open_ = {};
		if (answer.ok() && plan.takes_seq && answer.tag != "ROLLBACK PREPARED")
			lease.seq++;
	}
	if (answer.sqlstate.compare(0, 2, "TK") == 0)
		lease.lost = true;
	return answer.ok();
}

Answer
Work::finish(const Plan &plan)
{
	long request = history_.invoke("commit op=" + plan.op);
	Answer answer = database_.run("COMMIT");

	// The server says ROLLBACK to the COMMIT of a transaction that has failed.
	if (answer.ok() && answer.tag != "COMMIT") {
		answer.fate = Fate::error;
		answer.sqlstate = "25P02";
	}
	history_.answer(request, answer.text());
	return answer;
}

Answer
Work::finish_prepared(const Plan &plan)
{
	long request = history_.invoke("prepare op=" + plan.op);
	Answer answer = database_.run("PREPARE TRANSACTION " + quoted(gid_of(plan.op)));

	if (answer.ok() && answer.tag != "PREPARE TRANSACTION") {
		answer.fate = Fate::error;
		answer.sqlstate = "25P02";
	}
	history_.answer(request, answer.text());
	// Nothing was decided: what is found prepared is rolled back.
	open_.wants_commit = false;
	if (!answer.ok())
		return answer;
	open_.wants_commit = chance_.percent(80);
	if (chance_.percent(30))
		chance_.pause(0, 2 * options_.pause_ms);
	return end_prepared(plan.op, open_.wants_commit);
}

// An error leaves the transaction prepared, so it does not say what becomes of it.
Answer
Work::end_prepared(const std::string &op, bool commit)
{
	long request = history_.invoke((commit ? "commit op=" : "rollback op=") + op + " prepared=1");
	Answer answer =
		database_.run((commit ? "COMMIT PREPARED " : "ROLLBACK PREPARED ") + quoted(gid_of(op)));

	if (answer.fate == Fate::error)
		answer.fate = Fate::unknown;
	history_.answer(request, answer.text());
	return answer;
}

std::string
Work::gid_of(const std::string &op) const
{
	return "torture-" + op;
}

bool
Work::settle()
{
	return (open_.op.empty() || look_for_outcome()) && clean_up();
}

// The transaction may still be running in a backend that has not noticed that its client is gone. Its
// rows decide and not pg_xact_status(): a crash or a promotion may have given its xid to another.
bool
Work::look_for_outcome()
{
	// A COMMIT that no backend has read yet leaves the xid locked. The one statement of an autocommit
	// may not have begun: it is over when its backend has gone.
	std::string running = open_.xid.empty()
		? "EXISTS (SELECT FROM pg_stat_activity WHERE pid = " + std::to_string(open_.backend) +
			" AND backend_start < (SELECT backend_start FROM pg_stat_activity WHERE pid = "
			"pg_backend_pid()))"
		: "EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock'"
		  " AND transactionid = (('" +
			open_.xid + "'::xid8)::text::numeric % 4294967296)::text::xid)";

	if (++open_.tries > most_tries) { // it stays unknown
		open_ = {};
		gave_up_ = true;
		return true;
	}

	Answer answer = database_.run("SELECT " + running +
		", EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = " + quoted(gid_of(open_.op)) + ")");

	if (!answer.ok())
		return false;
	if (answer.row[1] == "t") {
		end_prepared(open_.op, open_.wants_commit);
		return false; // look again
	}
	if (answer.row[0] == "t")
		return false;

	long request = history_.invoke("resolve op=" + open_.op);

	answer = database_.run("SELECT EXISTS (SELECT FROM log" +
		std::string(open_.outside ? "_outside" : "") + " WHERE op = " + quoted(open_.op) +
		") OR EXISTS (SELECT FROM log_plain WHERE op = " + quoted(open_.op) + ")");
	if (!answer.ok()) {
		history_.answer(request, answer.text());
		return false;
	}
	// A pooler does not say which backend may still be about to run the statement.
	bool over = !open_.xid.empty() || open_.backend != 0;

	history_.answer(request,
		answer.row[0] == "t" ? "ok value=committed"
			: over           ? "ok value=absent"
							 : "ok value=open");
	open_ = {};
	return true;
}

// A process that was killed, or a life of the server that has come back, leaves transactions
// prepared, which hold up every grant of their resources.
bool
Work::clean_up()
{
	if (!options_.prepared)
		return true;

	std::string prefix = gid_of(std::to_string(options_.id) + '.');
	Answer answer = database_.run("SELECT gid FROM pg_prepared_xacts WHERE database = "
								  "current_database() AND starts_with(gid, " +
		quoted(prefix) + ") LIMIT 1");

	if (!answer.ok())
		return false;
	if (answer.row.empty())
		return true;
	end_prepared(answer.row[0].substr(gid_of("").size()), false);
	return false; // look for the next
}

} // namespace torture
