# wallet.py: a worker that carries out the requests of schema.sql. Needs psycopg 3.
#
#     wallet.py DSN HOLDER
import random
import sys
import time

import psycopg

# What a decision needs: an account, and what its owner has in all.
READ = """
    SELECT a.id, a.shard, a.balance, a.version, sum(b.balance)::bigint
    FROM account AS a JOIN account AS b USING (owner) WHERE a.id = ANY (%s) GROUP BY a.id"""
WRITE = (
    "UPDATE account SET balance = %(balance)s, version = version + 1 WHERE id = %(id)s"
    " AND version = %(version)s"  # version
)
OPEN = """
    SELECT r.key, r.source, r.target, r.amount, ARRAY[s.shard, coalesce(t.shard, s.shard)]
    FROM request AS r JOIN account AS s ON s.id = r.source LEFT JOIN account AS t ON t.id = r.target
    WHERE NOT EXISTS (SELECT FROM outcome AS o WHERE o.key = r.key)"""


class Conflict(Exception):
    """Somebody else has changed an account since it was read, or has carried out the request."""


def carry_out(db, tokens, request, check):
    """Carry out one request, with the tokens of its shards. `check` may take as long as it likes."""
    key, source, target, amount = request
    accounts = {
        row[0]: dict(zip(("id", "shard", "balance", "version", "covered"), row))
        for row in db.execute(READ, ([source, target],))
    }
    done = check(key) and accounts[source]["covered"] >= amount
    shard, state = accounts[source]["shard"], "done" if done else "rejected"
    with db.transaction():
        db.cursor().executemany("SELECT fencing.bind(%s, %s)", list(tokens.items()))  # fencing
        outcome = "INSERT INTO outcome (key, shard, state) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        if db.execute(outcome, (key, shard, state)).rowcount != 1:
            raise Conflict(key)
        if not done:
            return state
        for account in sorted(accounts):  # in one order, so that no two transactions wait for each other
            accounts[account]["balance"] += -amount if account == source else amount
            if db.execute(WRITE, accounts[account]).rowcount != 1:
                raise Conflict(key)
        if target is None:
            db.execute("INSERT INTO outbox (key, shard, amount) VALUES (%s, %s, %s)", (key, shard, amount))
    return state


def lease(db, shards, holder, ttl=2):
    """{resource: token} of all these shards, or None. In ascending order, so that no two workers wait for each other."""
    tokens = {}
    for shard in sorted(shards):
        row = db.execute(
            "SELECT resource, token FROM fencing.acquire(%s, make_interval(secs => %s), %s, '500 milliseconds')",
            (f"shard:{shard}", ttl, holder),
        ).fetchone()
        if row is None:
            release(db, tokens)
            return None
        tokens[row[0]] = row[1]
    return tokens


def release(db, tokens):
    for resource_and_token in tokens.items():
        db.execute("SELECT fencing.release(%s, %s)", resource_and_token)


def run(dsn, holder, check, report=print):
    """Carry out what there is to do, for ever."""
    with psycopg.connect(dsn, autocommit=True) as db:
        while True:
            requests = db.execute(OPEN).fetchall()
            if not requests:
                time.sleep(0.05)
                continue
            shards = set(random.choice(requests)[4])
            tokens = lease(db, shards, holder)
            if tokens is None:
                continue
            try:
                # What was read before the grant may be done by now: look again.
                requests = [request for request in db.execute(OPEN).fetchall() if set(request[4]) <= shards]
                for *request, _ in requests[:10]:
                    report(request[0], carry_out(db, tokens, request, check))
            except Conflict as conflict:
                report(conflict, "conflict")  # and again, with what is there now
            except psycopg.Error as error:
                if error.sqlstate != "TK001":
                    raise
                report("-", "TK001")  # the lease is lost: whoever has it now does the rest
            finally:
                release(db, tokens)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], lambda key: True)
