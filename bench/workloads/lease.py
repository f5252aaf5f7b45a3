"""lease.py: grants per second."""

from harness import Comparison, Workload, at_least, pgbench

ACQUIRE = "fencing.acquire"
UPSERT = "INSERT ... ON CONFLICT DO UPDATE"

RESOURCES = 10_000
CLIENTS = 8

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


def acquire(session, size, _library):
    """A grant of a random resource, committed durably."""
    session.query("CREATE SEQUENCE plain_token")
    session.query(
        "CREATE TABLE plain_lease (LIKE fencing.fence INCLUDING ALL) WITH (fillfactor = 70)"
    )
    session.query("SET fencing.durable_grants = off")  # to fill the table, in this session only
    session.query(
        f"DO $$ BEGIN FOR number IN 1..{RESOURCES} LOOP "
        "PERFORM fencing.acquire('job-' || number, '1 microsecond', 'worker'); COMMIT; "
        "END LOOP; END $$"
    )
    session.query("INSERT INTO plain_lease SELECT * FROM fencing.fence")

    def run(script, sequence, table):
        before = int(session.query(f"SELECT last_value FROM {sequence}"))
        rate, calls = pgbench(script, CLIENTS, size.seconds)
        grants = int(session.query(f"SELECT last_value FROM {sequence}")) - before
        # Now and then two clients meet on a resource, and one of them gets nothing.
        if grants < 0.98 * calls:
            raise RuntimeError(f"only {grants} of {calls} calls were granted: {script}")
        session.query(f"VACUUM {table}")
        return {"per second": rate}

    yield Workload(
        f"acquire: a random one of {RESOURCES:,} resources, {CLIENTS} clients, synchronous_commit on",
        {
            ACQUIRE: lambda: run(ACQUIRE_SCRIPT, "fencing.token_seq", "fencing.fence"),
            UPSERT: lambda: run(UPSERT_SCRIPT, "plain_token", "plain_lease"),
        },
        [Comparison(ACQUIRE, UPSERT, at_least(0.90))],
    )
    session.query("DROP TABLE plain_lease; DROP SEQUENCE plain_token")
