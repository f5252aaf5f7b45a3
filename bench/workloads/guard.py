"""guard.py: what the guard adds to a write."""

from harness import Comparison, Workload, at_most, pgbench

NONE = "no trigger"
EMPTY = "empty C trigger"
PLPGSQL = "PL/pgSQL row check"
COLUMN = "guard, token by column"
SETTING = "guard, token by setting, rows have it"
TAKEOVER = "guard, token by setting, new to the rows"

# The guard's rule as one would write it without the extension.
PLPGSQL_CHECK = """
CREATE FUNCTION row_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fence_token IS NULL OR NEW.fence_token < OLD.fence_token THEN
        RAISE EXCEPTION 'stale token' USING ERRCODE = 'TK001';
    END IF;
    RETURN NEW;
END $$"""

CREATE = "CREATE TRIGGER zz BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION "
TRIGGERS = {
    NONE: "SELECT",
    EMPTY: CREATE + "empty_trigger()",
    PLPGSQL: CREATE + "row_check()",
    COLUMN: "SELECT fencing.protect('{table}', 'fence_token')",
}


class Table:
    """A table whose rows carry a token. All contenders write the same one, under a trigger each, so
    that none has the better pages; the room in them is for HOT updates."""

    def __init__(self, session, name, rows, persistence=""):
        self.session = session
        self.name = name
        self.token = 1  # in every row
        session.query(
            f"CREATE {persistence} TABLE {name} (id int PRIMARY KEY, v int NOT NULL, "
            "fence_token bigint NOT NULL, pad text NOT NULL) WITH (fillfactor = 45)"
        )
        session.query(
            f"INSERT INTO {name} SELECT id, 0, {self.token}, repeat('x', 40) "
            f"FROM generate_series(1, {rows}) id"
        )
        session.query(f"VACUUM (FREEZE, ANALYZE) {name}")

    def under(self, trigger):
        self.session.query(f"DROP TRIGGER IF EXISTS zz ON {self.name}")
        self.session.query(f"SELECT fencing.unprotect('{self.name}')")
        self.session.query(TRIGGERS[trigger].format(table=self.name))

    def vacuum(self):
        self.session.query(f"VACUUM {self.name}")

    def drop(self):
        self.session.query(f"DROP TABLE {self.name}")


def prepare(session, library):
    session.query("SET client_min_messages = warning")
    session.query("SET synchronous_commit = off")  # of the statements, not of the commits
    session.query("DROP FUNCTION IF EXISTS row_check, empty_trigger")
    session.query(PLPGSQL_CHECK)
    session.query(f"CREATE FUNCTION empty_trigger() RETURNS trigger LANGUAGE c AS '{library}'")


def bulk(session, size, library):
    """One UPDATE of all rows. Only the statement is timed, neither BEGIN, SET nor COMMIT."""
    prepare(session, library)
    for persistence in ("UNLOGGED", ""):
        table = Table(session, "bulk", size.rows, persistence)

        def run(trigger, setting=None):
            # A write without a trigger before each: it pays for logging whole pages after the
            # checkpoint, and then the new versions always find the same room, since those of two
            # writes in a row go to different line pointers.
            table.under(NONE)
            session.query(f"UPDATE {table.name} SET v = v + 1")
            table.vacuum()
            table.under(trigger)
            session.query("BEGIN")
            if setting:
                session.query(f"SET LOCAL fencing.token = {setting}")
                figures = session.timed(f"UPDATE {table.name} SET v = v + 1")
            else:
                figures = session.timed(
                    f"UPDATE {table.name} SET v = v + 1, fence_token = {table.token}"
                )
            session.query("COMMIT")
            table.vacuum()
            return figures

        def take_over():
            table.token += 1
            return run(COLUMN, table.token)

        yield Workload(
            f"guard_bulk: UPDATE of {size.rows:,} rows, {persistence.lower() or 'logged'} table",
            {
                NONE: lambda: run(NONE),
                EMPTY: lambda: run(EMPTY),
                PLPGSQL: lambda: run(PLPGSQL),
                COLUMN: lambda: run(COLUMN),
                SETTING: lambda: run(COLUMN, table.token),
                TAKEOVER: take_over,
            },
            [
                Comparison(EMPTY, NONE),
                Comparison(PLPGSQL, EMPTY),
                *(
                    Comparison(guard, other, goal)
                    for other, goal in ((EMPTY, at_most(1.10)), (PLPGSQL, at_most(0.80)))
                    for guard in (COLUMN, SETTING, TAKEOVER)
                ),
            ],
            before_round=lambda: session.query("CHECKPOINT"),
        )
        table.drop()


def single(session, size, library):
    """UPDATE of one row by its key; a trigger costs little beside the rest of a transaction."""
    prepare(session, library)
    table = Table(session, "single", 100_000)
    clients = 8
    script = f"""
        \\set id random(1, 100000)
        UPDATE {table.name} SET v = v + 1, fence_token = {table.token} WHERE id = :id;
    """

    def run(trigger):
        table.under(trigger)
        rate, _ = pgbench(script, clients, size.seconds, synchronous_commit="off")
        table.vacuum()
        return {"per second": rate}

    yield Workload(
        f"guard_single: UPDATE by key, {clients} clients, synchronous_commit off",
        {
            NONE: lambda: run(NONE),
            EMPTY: lambda: run(EMPTY),
            PLPGSQL: lambda: run(PLPGSQL),
            COLUMN: lambda: run(COLUMN),
        },
        [
            Comparison(EMPTY, NONE),
            Comparison(COLUMN, NONE),
            Comparison(COLUMN, EMPTY),
            Comparison(COLUMN, PLPGSQL),
        ],
    )
    table.drop()
