"""guard.py: what the guard adds to a write."""

from harness import Comparison, Difference, Workload, at_least, at_most, pgbench

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

WHERE = "WHERE token <= $1, no trigger"

# The guard's rule as one would write it without the extension. What a DELETE presents is in a setting.
PLPGSQL_CHECK = """
CREATE FUNCTION row_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.fence_token IS NULL OR NEW.fence_token < OLD.fence_token THEN
            RAISE EXCEPTION 'stale token' USING ERRCODE = 'TK001';
        END IF;
        RETURN NEW;
    ELSIF TG_OP = 'INSERT' THEN
        IF NEW.fence_token IS NULL THEN
            RAISE EXCEPTION 'no token' USING ERRCODE = 'TK002';
        END IF;
        RETURN NEW;
    END IF;
    IF current_setting('bench.token')::bigint < OLD.fence_token THEN
        RAISE EXCEPTION 'stale token' USING ERRCODE = 'TK001';
    END IF;
    RETURN OLD;
END $$"""

# The rule of a resource fence, as one would write it: a row that every write of the resource locks.
FOLK_CHECK = """
CREATE FUNCTION folk_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    current bigint;
BEGIN
    SELECT token INTO current FROM folk_fence WHERE resource = 'bench' FOR SHARE;
    IF TG_OP = 'DELETE' THEN
        IF current_setting('bench.token')::bigint IS DISTINCT FROM current THEN
            RAISE EXCEPTION 'stale token' USING ERRCODE = 'TK001';
        END IF;
        RETURN OLD;
    END IF;
    IF NEW.fence_token IS DISTINCT FROM current THEN
        RAISE EXCEPTION 'stale token' USING ERRCODE = 'TK001';
    END IF;
    RETURN NEW;
END $$"""

CREATE = (
    "CREATE TRIGGER zz BEFORE INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION "
)
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


def single(session, size, library):
    """UPDATE of one row by its key; a trigger costs little beside the rest of a transaction."""
    prepare(session, library)
    rows = min(size.rows, 100_000)
    table = Table(session, "single", rows)
    update = f"""
        \\set id random(1, {rows})
        UPDATE {table.name} SET v = v + 1, fence_token = {table.token} WHERE id = :id"""

    def run(trigger, clients, commit, where=""):
        table.under(trigger)
        figures, _ = pgbench(f"{update}{where};", clients, size, synchronous_commit=commit)
        table.vacuum()
        return figures

    for commit in ("on", "off"):
        for clients in (1, 2, 8, 32):
            goal = at_least(1 / 1.05) if (clients, commit) == (8, "off") else None
            contenders = {
                trigger: (lambda trigger=trigger: run(trigger, clients, commit))
                for trigger in (NONE, EMPTY, PLPGSQL, FOLK, COLUMN, RESOURCE)
            }
            contenders[WHERE] = lambda: run(
                NONE, clients, commit, f" AND fence_token <= {table.token}"
            )
            yield Workload(
                f"guard_single: UPDATE by key, {clients} clients, synchronous_commit {commit}",
                contenders,
                [
                    Comparison(EMPTY, NONE),
                    Comparison(COLUMN, NONE, goal),
                    Comparison(RESOURCE, NONE, goal),
                    Comparison(COLUMN, EMPTY),
                    Comparison(RESOURCE, EMPTY),
                    Comparison(COLUMN, PLPGSQL),
                    Comparison(RESOURCE, FOLK),
                    Comparison(COLUMN, WHERE),
                ],
                family=f"guard_single: UPDATE by key, synchronous_commit {commit}",
                number=("clients", clients),
            )
    table.drop()


def many(session, size, library):
    """One transaction over as many resources as rows, its COMMIT included."""
    prepare(session, library)
    sizes = [rows for rows in (1, 100, 10_000) if rows < size.rows] + [size.rows]
    for rows in sizes:
        table = Table(session, "many", rows)
        session.query(
            f"INSERT INTO fencing.fence SELECT 'many-' || id, {table.token}, false, NULL, "
            f"'1 hour', now(), now() + interval '1 hour', NULL FROM generate_series(1, {rows}) id"
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
            return {"µs each": figures["ms"] * 1000 / rows, "CPU ms": figures["CPU ms"]}

        yield Workload(
            f"guard_many: UPDATE of {rows:,} rows of {rows:,} resources, and COMMIT",
            {EMPTY: lambda: run(EMPTY), MANY: lambda: run(MANY)},
            [Difference(MANY, EMPTY, at_most(3) if rows >= 10_000 else None)],
            before_round=lambda: session.query("CHECKPOINT"),
            family="guard_many: UPDATE of rows of as many resources, and COMMIT",
            number=("resources", rows),
        )
        session.query("DELETE FROM fencing.fence WHERE resource LIKE 'many-%'")
        session.query("VACUUM fencing.fence")
        table.drop()
