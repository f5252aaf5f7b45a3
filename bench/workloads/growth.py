"""growth.py: what many resources cost, and what is left of many renewals."""

from dataclasses import replace

from harness import Comparison, Session, Workload, at_most, pgbench

SMALL = 1_000  # a quarter of the names each: held, over, from elsewhere, never asked for
MOST = 64  # clients

# Each is one transaction on one of the same 1,000 names. Their leases are those of one token, as if
# all had been granted to one holder, so that a script knows it; acquire takes over from an expired
# one of its own.
OPERATIONS = {
    "acquire": "SELECT * FROM fencing.acquire('free-' || :number, '1 microsecond', 'worker');",
    "acquire and release": "SELECT token FROM fencing.acquire('free-' || :number, '1 hour', 'worker', "
    "steal => 'always') \\gset\nSELECT fencing.release('free-' || :number, :token);",
    "acquire, held": "SELECT * FROM fencing.acquire('job-' || :number);",
    "renew": "SELECT fencing.renew('job-' || :number, {token});",
    "lookup": "SELECT * FROM fencing.lookup('job-' || :number);",
    "bind and commit": "BEGIN;\nSELECT fencing.bind('job-' || :number, {token});\nCOMMIT;",
    "guarded UPDATE": "UPDATE work SET v = v + 1, fence_token = {token} WHERE id = :number;",
    "advance": "SELECT fencing.advance('elsewhere-' || :number, "
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);",
}


class Database:
    """One with so many resources: the 1,000 names of each kind, and others around them."""

    def __init__(self, session, resources):
        self.session = session
        self.name = f"grown_{resources}"
        session.query(f"CREATE DATABASE {self.name}")
        self.inside = Session(self.name)
        query = self.inside.query
        query("SET client_min_messages = warning")
        query("SET synchronous_commit = off")
        query("CREATE EXTENSION fencing")
        self.token = int(query("SELECT fencing.next_token()"))
        # Leases that last, leases that are over, resources from elsewhere; the rest are over. In an
        # order that has nothing to do with the names, as a table that has grown is.
        query(
            f"""INSERT INTO fencing.fence SELECT name, {self.token}, external,
                CASE WHEN NOT external THEN 'worker' END,
                CASE WHEN NOT external THEN interval '1 hour' END,
                CASE WHEN NOT external THEN now() END,
                CASE WHEN external THEN NULL WHEN held THEN now() + interval '1 day' ELSE now() END,
                NULL
            FROM (SELECT (number::bigint * 7368787) % {resources} AS place
                FROM generate_series(0, {resources} - 1) number) mixed,
            LATERAL (SELECT place < {SMALL} * 1 / 4 AS held,
                place >= {SMALL} * 2 / 4 AND place < {SMALL} * 3 / 4 AS external) kind,
            LATERAL (SELECT CASE
                WHEN place < {SMALL} * 1 / 4 THEN 'job-' || place + 1
                WHEN place < {SMALL} * 2 / 4 THEN 'free-' || place + 1 - {SMALL} * 1 / 4
                WHEN place < {SMALL} * 3 / 4 THEN 'elsewhere-' || place + 1 - {SMALL} * 2 / 4
                ELSE 'other-' || place END AS name) named"""
        )
        query("VACUUM (FREEZE, ANALYZE) fencing.fence")
        query("CREATE TABLE work (id int PRIMARY KEY, v int, fence_token bigint) WITH (fillfactor = 45)")
        query(f"INSERT INTO work SELECT id, 0, {self.token} FROM generate_series(1, {SMALL // 4}) id")
        query("SELECT fencing.protect('work', 'fence_token', 'job-{id}')")
        query("VACUUM (FREEZE, ANALYZE) work")

    def run(self, operation, clients, size):
        # Each client has names of its own: who meets another one gets no row.
        script = f"\\set number 1 + :client_id + {MOST} * random(0, {SMALL // 4 // MOST - 1})\n"
        script += OPERATIONS[operation].replace("{token}", str(self.token))
        figures, _ = pgbench(
            script, clients, size, "off", "-c fencing.durable_grants=off", self.name
        )
        self.inside.query("VACUUM fencing.fence")
        # Few rows under many writers: how far they have spread over pages is chance, and would stay.
        self.inside.query("VACUUM (FULL) work")
        return figures

    def drop(self):
        self.inside.close()
        self.session.query(f"DROP DATABASE {self.name} WITH (FORCE)")


def growth(session, size, _library):
    """The same calls on the same names, in a small and in a large installation, without waiting for
    the disk. By 8 clients, which let no processor sleep: waking one up takes longer than most calls."""
    databases = {
        f"{resources:,} resources": Database(session, resources)
        for resources in (SMALL, size.resources)
    }
    small, large = databases

    def busy(operation, database):
        figures = database.run(operation, 8, size)
        # Of the machine: a call lasts 8 times that.
        return {"µs of all": 1e6 / figures["per second"], "client CPU %": figures["client CPU %"]}

    for operation in OPERATIONS:
        yield Workload(
            f"growth: {operation}, in {large} and in {small}",
            {
                name: (lambda database=database: busy(operation, database))
                for name, database in databases.items()
            },
            [Comparison(large, small, at_most(1.15))],
        )
    for clients in (1, 2, 8, 32, MOST):
        yield Workload(
            f"growth: acquire and release, {clients} clients",
            {
                name: (lambda database=database: database.run("acquire and release", clients, size))
                for name, database in databases.items()
            },
            [Comparison(large, small)],
            family="growth: acquire and release",
            number=("clients", clients),
        )
    for database in databases.values():
        database.drop()


def renewals(session, size, _library):
    """Many renewals without VACUUM: whether they stay HOT, and what the table grows to."""
    ours, plain = "fencing.renew", "UPDATE ... WHERE resource AND token"
    database = Database(session, 10 * SMALL)
    inside = database.inside
    inside.query("CREATE TABLE plain_lease (LIKE fencing.fence INCLUDING ALL) WITH (fillfactor = 70)")
    inside.query("INSERT INTO plain_lease SELECT * FROM fencing.fence")
    inside.query("VACUUM (FREEZE, ANALYZE) plain_lease")
    scripts = {
        ours: ("fencing.fence", OPERATIONS["renew"].replace("{token}", str(database.token))),
        plain: (
            "plain_lease",
            "UPDATE plain_lease SET expires_at = clock_timestamp() + ttl WHERE resource = "
            f"'job-' || :number AND token = {database.token} AND released_at IS NULL "
            "AND expires_at > clock_timestamp();",
        ),
    }

    def state(table):
        # The counters of other sessions arrive a little later; those of ended ones are there.
        inside.query("SELECT pg_stat_clear_snapshot()")
        return [
            int(value)
            for value in inside.query(
                "SELECT n_tup_upd, n_tup_hot_upd, pg_relation_size(relid), pg_indexes_size(relid) "
                f"FROM pg_stat_all_tables WHERE relid = '{table}'::regclass"
            ).split("|")
        ]

    def run(name):
        table, statement = scripts[name]
        script = f"\\set number random(1, {SMALL // 4})\n{statement}"
        inside.query(f"VACUUM FULL {table}")
        before = state(table)
        count = replace(size, seconds=0, calls=size.renewals)
        figures, calls = pgbench(script, 8, count, "off", "-c fencing.durable_grants=off", database.name)
        after = state(table)
        updates, hot = after[0] - before[0], after[1] - before[1]
        if updates < 0.99 * calls:
            raise RuntimeError(f"only {updates} of {calls} renewals were done: {name}")
        return {
            "HOT %": 100 * hot / updates,
            "table before, kB": before[2] / 1024,
            "table after, kB": after[2] / 1024,
            "index after, kB": after[3] / 1024,
            "per second": figures["per second"],
        }

    yield Workload(
        f"renewals: {size.renewals:,} of {SMALL // 4} resources among {10 * SMALL:,}, 8 clients, no VACUUM",
        {ours: lambda: run(ours), plain: lambda: run(plain)},
        [Comparison(ours, plain)],
    )
    database.drop()
