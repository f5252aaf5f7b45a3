"""lease.py: grants per second, beside what else one would ask for a lock on the same disk."""

import os
import subprocess
import tempfile
from contextlib import ExitStack

from harness import Comparison, Workload, at_least, client_share, pgbench
from workloads import services

ACQUIRE = "fencing.acquire"
RELAXED = "fencing.acquire, durable_grants = off"
UPSERT = "INSERT ... ON CONFLICT DO UPDATE"
FOLK = "advisory lock, nextval, INSERT or UPDATE"
ETCD = "etcd"
ZOOKEEPER = "ZooKeeper"
REDIS = "Redis, appendfsync always"
UPDATE = "UPDATE of a row by its key, synchronous_commit = off"

RESOURCES = 10_000

# What of an answered grant is there after kill -9 or a power cut.
SURVIVES = {
    ACQUIRE: "the grant, the fence, the token",
    RELAXED: "the token is not issued again; the last grants may be gone, and the fence with them",
    UPSERT: "the grant; nothing refuses a late write",
    FOLK: "the grant; nothing refuses a late write",
    ETCD: "the grant and the revision; nothing at the storage",
    ZOOKEEPER: "the node until its session ends, the sequence number; nothing at the storage",
    REDIS: "the key until it expires, the counter; nothing at the storage",
    UPDATE: "no grant: the least that a server does for a row that changes",
}

# The time to live has passed when the resource comes up again, so that each call is a grant.
ACQUIRE_SCRIPT = f"""
    \\set number random(1, {RESOURCES})
    SELECT * FROM fencing.acquire('job-' || :number, '1 microsecond', 'worker');
"""

# A lease as one would write it without the extension, on the same columns. It does not keep the
# promises: the token is drawn before the row is locked, and a crash may forget it.
UPSERT_SCRIPT = f"""
    \\set number random(1, {RESOURCES})
    INSERT INTO plain_lease AS old (resource, token, external, holder, ttl, acquired_at, expires_at)
    VALUES ('job-' || :number, nextval('plain_token'), false, 'worker', '1 microsecond',
        clock_timestamp(), clock_timestamp() + interval '1 microsecond')
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token, holder = excluded.holder,
        ttl = excluded.ttl, acquired_at = excluded.acquired_at, expires_at = excluded.expires_at,
        released_at = NULL
    WHERE old.expires_at <= clock_timestamp() OR old.released_at IS NOT NULL
    RETURNING resource, token, holder, ttl, acquired_at, expires_at;
"""

# The recipe that goes around: an advisory lock of the transaction, so that the token is drawn in
# order, then the row. One call of a function, as acquire is one.
FOLK_FUNCTION = """
CREATE FUNCTION folk_acquire(wanted text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    drawn bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(wanted, 0)) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM folk_lease WHERE resource = wanted AND expires_at > clock_timestamp()
        AND released_at IS NULL) THEN
        RETURN NULL;
    END IF;
    drawn := nextval('folk_token');
    UPDATE folk_lease SET token = drawn, holder = 'worker', ttl = '1 microsecond',
        acquired_at = clock_timestamp(), expires_at = clock_timestamp() + interval '1 microsecond',
        released_at = NULL WHERE resource = wanted;
    IF NOT FOUND THEN
        INSERT INTO folk_lease (resource, token, external, holder, ttl, acquired_at, expires_at)
        VALUES (wanted, drawn, false, 'worker', '1 microsecond', clock_timestamp(),
            clock_timestamp() + interval '1 microsecond');
    END IF;
    RETURN drawn;
END $$"""
FOLK_SCRIPT = f"""
    \\set number random(1, {RESOURCES})
    SELECT folk_acquire('job-' || :number);
"""

# The floor of a grant that waits for no disk.
UPDATE_SCRIPT = f"""
    \\set number random(1, {RESOURCES})
    UPDATE plain_lease SET acquired_at = clock_timestamp() WHERE resource = 'job-' || :number;
"""


def granted(grants, calls, what):
    """Now and then two clients meet on a resource, and one of them gets nothing."""
    if grants < 0.95 * calls:
        raise RuntimeError(f"only {grants} of {calls} calls were granted: {what}")


class Service:
    """A lock service beside the server, and the program that asks it for grants."""

    def __init__(self, name, address):
        self.command = [os.path.join(os.environ["BENCH_PROGRAMS"], "load"), name, address]
        self.ask("prepare", RESOURCES)

    def ask(self, *what):
        done = subprocess.run(
            [*services.BOUND_TO_US, *self.command, *map(str, what)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"failed: {self.command} {what}: {done.stderr}")
        return done.stdout.split()

    def run(self, size, clients):
        extent = ("seconds", size.seconds) if size.seconds else ("calls", size.calls // clients)
        calls, grants, elapsed, cpu = map(float, self.ask(*extent, clients, RESOURCES))
        granted(grants, calls, self.command)
        return {"per second": grants / elapsed, "client CPU %": client_share(cpu, elapsed)}


def prepare(session):
    session.query("CREATE SEQUENCE plain_token")
    session.query("CREATE SEQUENCE folk_token")
    session.query(FOLK_FUNCTION)
    session.query("SET fencing.durable_grants = off")  # to fill the table, in this session only
    session.query(
        f"DO $$ BEGIN FOR number IN 1..{RESOURCES} LOOP "
        "PERFORM fencing.acquire('job-' || number, '1 microsecond', 'worker'); COMMIT; "
        "END LOOP; END $$"
    )
    for table in ("plain_lease", "folk_lease"):
        session.query(
            f"CREATE TABLE {table} (LIKE fencing.fence INCLUDING ALL) WITH (fillfactor = 70)"
        )
        session.query(f"INSERT INTO {table} SELECT * FROM fencing.fence")


def acquire(session, size, _library):
    """A grant of a random resource. A call counts when its answer says granted."""
    prepare(session)
    relaxed = {"synchronous_commit": "off", "options": "-c fencing.durable_grants=off"}

    def run(clients, script, sequence, table, **settings):
        before = int(session.query(f"SELECT last_value FROM {sequence}"))
        figures, calls = pgbench(script, clients, size, **settings)
        grants = int(session.query(f"SELECT last_value FROM {sequence}")) - before
        granted(grants, calls, script)
        session.query(f"VACUUM {table}")
        return {**figures, "per second": figures["per second"] * min(grants / calls, 1)}

    def ours(clients, **settings):
        return run(clients, ACQUIRE_SCRIPT, "fencing.token_seq", "fencing.fence", **settings)

    def update(clients):
        figures, _ = pgbench(UPDATE_SCRIPT, clients, size, synchronous_commit="off")
        session.query("VACUUM plain_lease")
        return figures

    with ExitStack() as stack:
        others = {}
        for name, start in ((ETCD, services.etcd), (ZOOKEEPER, services.zookeeper), (REDIS, services.redis)):
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=os.environ["HOME"]))
            others[name] = Service(start.__name__, stack.enter_context(start(folder)))

        for clients in (1, 8, 32):
            many = clients > 1
            yield Workload(
                f"acquire: a random one of {RESOURCES:,} resources, {clients} clients",
                {
                    ACQUIRE: lambda: ours(clients),
                    RELAXED: lambda: ours(clients, **relaxed),
                    UPSERT: lambda: run(clients, UPSERT_SCRIPT, "plain_token", "plain_lease"),
                    FOLK: lambda: run(clients, FOLK_SCRIPT, "folk_token", "folk_lease"),
                    UPDATE: lambda: update(clients),
                    **{
                        name: (lambda other=other: other.run(size, clients))
                        for name, other in others.items()
                    },
                },
                [
                    Comparison(ACQUIRE, UPSERT, at_least(1.0) if many else None),
                    Comparison(ACQUIRE, FOLK),
                    Comparison(ACQUIRE, ETCD, at_least(2.0) if many else None),
                    Comparison(ACQUIRE, ZOOKEEPER, at_least(1.3) if many else None),
                    Comparison(ACQUIRE, REDIS),
                    Comparison(RELAXED, REDIS, at_least(1.3) if clients == 32 else None),
                    Comparison(RELAXED, UPDATE),
                    Comparison(UPDATE, REDIS),
                ],
                notes=SURVIVES,
                note="what survives a crash",
                family="acquire: grants",
                number=("clients", clients),
            )
    session.query("DROP FUNCTION folk_acquire")
    session.query("DROP TABLE plain_lease, folk_lease; DROP SEQUENCE plain_token, folk_token")
