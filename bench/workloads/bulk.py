"""bulk.py: what the guard adds to a statement that writes many rows."""

import os

from harness import Comparison, Overhead, Workload, at_most
from workloads.guard import (
    BOUND,
    COLUMN,
    EMPTY,
    FOLK,
    NONE,
    PLPGSQL,
    RESOURCE,
    SETTING,
    TAKEOVER,
    WHERE,
    Table,
    prepare,
)

# The token is in the statement, but a DELETE can name none.
UPDATE = "UPDATE bulk SET v = v + 1, fence_token = {token}"
PAYLOAD = "UPDATE bulk SET v = v + 1"
DELETE = "DELETE FROM bulk"
INSERT = "INSERT INTO bulk SELECT id, v, {token}, pad FROM source"
COPY = "COPY bulk FROM '{file}'"
UPSERT = (
    "INSERT INTO bulk SELECT id, v, {token}, pad FROM source ON CONFLICT (id) DO UPDATE SET "
    "v = bulk.v + 1, fence_token = excluded.fence_token"
)
PRESENTED = "SET LOCAL fencing.token = {token}; SET LOCAL bench.token = {token}"


def update(session, size, library):
    """One UPDATE of all rows. Only the statement is timed, neither BEGIN, SET nor COMMIT."""
    prepare(session, library)
    for persistence in ("UNLOGGED", ""):
        table = Table(session, "bulk", size.rows, persistence)

        def run(trigger, before="SELECT", statement=UPDATE):
            # A write without a trigger before each: it pays for logging whole pages after the
            # checkpoint, and then the new versions always find the same room, since those of two
            # writes in a row go to different line pointers.
            table.under(NONE)
            session.query(PAYLOAD)
            table.vacuum()
            table.under(trigger)
            session.query("BEGIN")
            session.query(before.format(token=table.token))
            figures = session.timed(statement.format(token=table.token))
            session.query("COMMIT")
            table.vacuum()
            return figures

        def by_setting():
            return run(COLUMN, PRESENTED, PAYLOAD)

        def take_over():
            table.acquire()
            return by_setting()

        yield Workload(
            f"bulk_update: UPDATE of {size.rows:,} rows, {persistence.lower() or 'logged'} table",
            {
                NONE: lambda: run(NONE),
                EMPTY: lambda: run(EMPTY),
                PLPGSQL: lambda: run(PLPGSQL),
                COLUMN: lambda: run(COLUMN),
                SETTING: by_setting,
                TAKEOVER: take_over,
                FOLK: lambda: run(FOLK),
                WHERE: lambda: run(NONE, statement=UPDATE + " WHERE fence_token <= {token}"),
                RESOURCE: lambda: run(RESOURCE),
                BOUND: lambda: run(RESOURCE, "SELECT fencing.bind('bench', {token})", PAYLOAD),
            },
            [
                Comparison(EMPTY, NONE),
                Comparison(PLPGSQL, EMPTY),
                *(Comparison(guard, EMPTY, at_most(1.05)) for guard in (COLUMN, SETTING, TAKEOVER)),
                *(Comparison(guard, EMPTY, at_most(1.08)) for guard in (RESOURCE, BOUND)),
                Overhead(RESOURCE, FOLK, at_most(0.10), EMPTY),
                *(Comparison(COLUMN, other) for other in (PLPGSQL, WHERE)),
            ],
            before_round=lambda: session.query("CHECKPOINT"),
        )
        table.drop()


def write(session, size, library):
    """The other statements. Only the statement is timed; its transaction is rolled back where that
    leaves the table as the next one wants to find it."""
    prepare(session, library)
    table = Table(session, "bulk", size.rows)
    session.query("CREATE TABLE source AS TABLE bulk")
    session.query("VACUUM (FREEZE, ANALYZE) source")
    file = os.path.join(os.environ["HOME"], "bulk.copy")

    def run(statement, trigger, where=""):
        full = statement in (DELETE, UPSERT)
        text = (statement + where).format(token=table.token, file=file)
        table.under(NONE)
        if full:
            # As before an UPDATE: whole pages are logged, and a round is like the next.
            session.query(f"BEGIN; {text}; {'ROLLBACK' if statement == DELETE else 'COMMIT'}")
            table.vacuum()
        else:
            session.query("TRUNCATE bulk")
        table.under(trigger)
        session.query("BEGIN")
        if statement == DELETE:
            session.query(PRESENTED.format(token=table.token))
        figures = session.timed(text)
        session.query("ROLLBACK" if statement == DELETE else "COMMIT")
        if full:
            table.vacuum()
        written = int(session.query("SELECT count(*) FROM bulk"))
        if written != size.rows:
            raise RuntimeError(f"{written} rows are there after {text} under {trigger}")
        return figures

    # The two that want a full table first.
    for name, statement, where, goal in (
        ("DELETE", DELETE, " WHERE fence_token <= {token}", None),
        ("upsert", UPSERT, " WHERE bulk.fence_token <= excluded.fence_token", None),
        ("INSERT ... SELECT", INSERT, None, at_most(1.05)),
        ("COPY", COPY, None, at_most(1.05)),
    ):
        if statement == COPY:
            session.query(f"COPY source TO '{file}'")
        contenders = {
            trigger: (lambda trigger=trigger: run(statement, trigger))
            for trigger in (NONE, EMPTY, PLPGSQL, FOLK, COLUMN, RESOURCE)
        }
        if where:
            contenders[WHERE] = lambda: run(statement, NONE, where)
        yield Workload(
            f"bulk_write: {name} of {size.rows:,} rows, logged table",
            contenders,
            [
                Comparison(EMPTY, NONE),
                Comparison(COLUMN, EMPTY, goal),
                Comparison(RESOURCE, EMPTY, goal),
                Overhead(RESOURCE, FOLK, beyond=EMPTY),
                Comparison(COLUMN, PLPGSQL),
                *([Comparison(COLUMN, WHERE)] if where else []),
            ],
            before_round=lambda: session.query("CHECKPOINT"),
        )
    session.query("DROP TABLE source")
    table.drop()
    os.unlink(file)
