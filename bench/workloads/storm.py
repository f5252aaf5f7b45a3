"""storm.py: those who write by right, beside sessions that are refused as fast as they can."""

import os
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager

from harness import Comparison, Workload, at_least, pgbench
from workloads import services
from workloads.handover import preloaded

REFUSED = "beside 8 sessions that are refused"
ERROR = "beside 8 sessions with an ordinary error"
STORMERS, WRITERS = 8, 2
STATEMENTS = 300_000  # more than a session gets done in a run

WRITE_SCRIPT = """
    \\set id random(1, 1000)
    BEGIN;
    SELECT fencing.bind('of the writers', {token});
    UPDATE storm SET balance = balance + 1 WHERE id = :id;
    COMMIT;
"""


@contextmanager
def storm(folder, statement, environment):
    """Sessions that go from one error to the next. pgbench would end a client at the first."""
    path = os.path.join(folder, "statements.sql")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{statement};\n" * STATEMENTS)
    sessions = [
        subprocess.Popen(
            [*services.BOUND_TO_US, "psql", "-Xq", "-f", path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        for _ in range(STORMERS)
    ]
    try:
        yield sessions
    finally:
        for session in sessions:
            session.terminate()
            session.wait()


def refusal_storm(_session, size, _library):
    """The record of each refusal is in shared memory, which the writers take part in."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=os.environ["HOME"]))
        second = stack.enter_context(preloaded(folder))
        environment = {**os.environ, **second}

        def query(sql):
            done = subprocess.run(
                ["psql", "-XqAtc", sql], env=environment, capture_output=True, text=True, check=True
            )
            return done.stdout.strip()

        query(
            "CREATE TABLE storm (id int PRIMARY KEY, balance int);"
            "INSERT INTO storm SELECT n, 0 FROM generate_series(1, 1000) AS n;"
        )
        query("SELECT fencing.protect('storm', resource => 'of the writers')")
        query("SELECT fencing.fast_forward(1000)")  # so that 1 is of somebody who has lost
        token = query("SELECT token FROM fencing.acquire('of the writers', '1 day')")

        def writers(statement, refused):
            started = query("SELECT now()")
            with storm(folder, statement, environment) as sessions:
                figures, _ = pgbench(
                    WRITE_SCRIPT.format(token=token), WRITERS, size, "off", environment=second
                )
                if any(session.poll() is not None for session in sessions):
                    raise RuntimeError("a session of the storm ended early")
            newest = query(f"SELECT count(*) FROM fencing.refusals WHERE refused_at > '{started}'")
            if refused != (int(newest) > 0):
                raise RuntimeError(f"{newest} refusals are on record")
            return figures

        yield Workload(
            f"refusal_storm: {WRITERS} writers by right beside {STORMERS} sessions, {size.load()}",
            {
                REFUSED: lambda: writers("SELECT fencing.bind('of the writers', 1)", True),
                ERROR: lambda: writers("SELECT 1 / 0 FROM fencing.lookup('of the writers')", False),
            },
            [Comparison(REFUSED, ERROR, at_least(0.95))],
        )
