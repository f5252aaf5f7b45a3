"""guard.py: what the guard adds to a write."""

from harness import Comparison, Difference, Overhead, Workload, at_least, at_most, pgbench

NONE = "no trigger"
EMPTY = "empty C trigger"
PLPGSQL = "PL/pgSQL row check"
COLUMN = "guard, token by column"
SETTING = "guard, token by setting, rows have it"
TAKEOVER = "guard, token by setting, new to the rows"
FOLK = "PL/pgSQL, SELECT ... FOR SHARE"
RESOURCE = "resource guard, token by column"
MANY = "resource guard, a resource for each row"
BOUND = "resource guard, bind, rows have it"

# The guard's rule as one would write it without the extension.
PLPGSQL_CHECK = """
CREATE FUNCTION row_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fence_token IS NULL OR NEW.fence_token < OLD.fence_token THEN
        RAISE EXCEPTION 'stale token' USING ERRCODE = 'TK001';
    END IF;
    RETURN NEW;
END $$"""

# The rule of a resource fence, as one would write it: a row that every write of the resource locks.
FOLK_CHECK = """
CREATE FUNCTION folk_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    current bigint;
BEGIN
    SELECT token INTO current FROM folk_fence WHERE resource = 'bench' FOR SHARE;
    IF NEW.fence_token IS DISTINCT FROM current THEN
        RAISE EXCEPTION 'stale token' USING ERRCODE = 'TK001';
    END IF;
    RETURN NEW;
END $$"""

CREATE = "CREATE TRIGGER zz BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION "
TRIGGERS = {
    NONE: "SELECT",
    EMPTY: CREATE + "empty_trigger()",
    PLPGSQL: CREATE + "row_check()",
    FOLK: CREATE + "folk_check()",
    COLUMN: "SELECT fencing.protect('{table}', 'fence_token')",
    RESOURCE: "SELECT fencing.protect('{table}', 'fence_token', 'bench')",
    MANY: "SELECT fencing.protect('{table}', 'fence_token', 'many-{{id}}')",
}


class Table:
    """A table whose rows carry a token. All contenders write the same one, under a trigger each, so
    that none has the better pages; the room in them is for HOT updates."""

    def __init__(self, session, name, rows, persistence=""):
        self.session = session
        self.name = name
        self.acquire()  # the token is in every row
        session.query(
            f"CREATE {persistence} TABLE {name} (id int PRIMARY KEY, v int NOT NULL, "
            "fence_token bigint NOT NULL, pad text NOT NULL) WITH (fillfactor = 45)"
        )
        session.query(
            f"INSERT INTO {name} SELECT id, 0, {self.token}, repeat('x', 40) "
            f"FROM generate_series(1, {rows}) id"
        )
        session.query(f"VACUUM (FREEZE, ANALYZE) {name}")

    def acquire(self):
        """Take the one resource over; all contenders present its token."""
        self.token = int(
            self.session.query("SELECT token FROM fencing.acquire('bench', steal => 'always')")
        )
        self.session.query(f"UPDATE folk_fence SET token = {self.token}")

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
    session.query("DROP FUNCTION IF EXISTS row_check, folk_check, empty_trigger")
    session.query("DROP TABLE IF EXISTS folk_fence")
    session.query("CREATE TABLE folk_fence (resource text PRIMARY KEY, token bigint NOT NULL)")
    session.query("INSERT INTO folk_fence VALUES ('bench', 1)")
    session.query(PLPGSQL_CHECK)
    session.query(FOLK_CHECK)
    session.query(f"CREATE FUNCTION empty_trigger() RETURNS trigger LANGUAGE c AS '{library}'")


def bulk(session, size, library):
    """One UPDATE of all rows. Only the statement is timed, neither BEGIN, SET nor COMMIT."""
    prepare(session, library)
    for persistence in ("UNLOGGED", ""):
        table = Table(session, "bulk", size.rows, persistence)

        def run(trigger, before=None):
            # A write without a trigger before each: it pays for logging whole pages after the
            # checkpoint, and then the new versions always find the same room, since those of two
            # writes in a row go to different line pointers.
            table.under(NONE)
            session.query(f"UPDATE {table.name} SET v = v + 1")
            table.vacuum()
            table.under(trigger)
            session.query("BEGIN")
            if before:
                session.query(before)
                figures = session.timed(f"UPDATE {table.name} SET v = v + 1")
            else:
                figures = session.timed(
                    f"UPDATE {table.name} SET v = v + 1, fence_token = {table.token}"
                )
            session.query("COMMIT")
            table.vacuum()
            return figures

        def by_setting():
            return run(COLUMN, f"SET LOCAL fencing.token = {table.token}")

        def take_over():
            table.acquire()
            return by_setting()

        def by_bind():
            return run(RESOURCE, f"SELECT fencing.bind('bench', {table.token})")

        yield Workload(
            f"guard_bulk: UPDATE of {size.rows:,} rows, {persistence.lower() or 'logged'} table",
            {
                NONE: lambda: run(NONE),
                EMPTY: lambda: run(EMPTY),
                PLPGSQL: lambda: run(PLPGSQL),
                COLUMN: lambda: run(COLUMN),
                SETTING: by_setting,
                TAKEOVER: take_over,
                FOLK: lambda: run(FOLK),
                RESOURCE: lambda: run(RESOURCE),
                BOUND: by_bind,
            },
            [
                Comparison(EMPTY, NONE),
                Comparison(PLPGSQL, EMPTY),
                Comparison(RESOURCE, EMPTY, at_most(1.15)),
                Comparison(BOUND, EMPTY, at_most(1.15)),
                Overhead(RESOURCE, FOLK, at_most(0.25), EMPTY),
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
            FOLK: lambda: run(FOLK),
            COLUMN: lambda: run(COLUMN),
            RESOURCE: lambda: run(RESOURCE),
        },
        [
            Comparison(EMPTY, NONE),
            Comparison(COLUMN, NONE),
            Comparison(COLUMN, EMPTY),
            Comparison(COLUMN, PLPGSQL),
            Comparison(RESOURCE, EMPTY, at_least(0.94)),
            Comparison(RESOURCE, FOLK),
        ],
    )
    table.drop()


def many(session, size, library):
    """One transaction over as many resources as rows, its COMMIT included."""
    prepare(session, library)
    table = Table(session, "many", size.rows)
    session.query(
        f"INSERT INTO fencing.fence SELECT 'many-' || id, {table.token}, false, NULL, '1 hour', "
        f"now(), now() + interval '1 hour', NULL FROM generate_series(1, {size.rows}) id"
    )
    session.query("VACUUM (FREEZE, ANALYZE) fencing.fence")

    def run(trigger):
        table.under(NONE)
        session.query(f"UPDATE {table.name} SET v = v + 1")
        table.vacuum()
        table.under(trigger)
        session.query("BEGIN")
        figures = session.timed(
            f"UPDATE {table.name} SET v = v + 1, fence_token = {table.token}; COMMIT"
        )
        table.vacuum()
        return {"µs each": figures["ms"] * 1000 / size.rows, "CPU ms": figures["CPU ms"]}

    yield Workload(
        f"guard_many: UPDATE of {size.rows:,} rows of {size.rows:,} resources, and COMMIT",
        {EMPTY: lambda: run(EMPTY), MANY: lambda: run(MANY)},
        [Difference(MANY, EMPTY, at_most(6))],
        before_round=lambda: session.query("CHECKPOINT"),
    )
    session.query("DELETE FROM fencing.fence WHERE resource LIKE 'many-%'")
    table.drop()
