"""handover.py: from a release to the grant of who waits for it."""

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from statistics import median

from harness import Comparison, Level, Workload, at_most
from workloads import services

LATE = "fencing.acquire, library loaded at first use"
PRELOADED = "fencing.acquire, library in shared_preload_libraries"
ADVISORY = "pg_advisory_lock"


@contextmanager
def preloaded(folder):
    """A second cluster like the first, with the library preloaded. The folder is where its socket is."""
    data = os.path.join(folder, "data")
    subprocess.run(
        ["initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8"]
        + ["-D", data],
        check=True,
        capture_output=True,
    )
    # The last line of a setting counts.
    shutil.copy(os.path.join(os.environ["HOME"], "data", "postgresql.conf"), data)
    with open(os.path.join(data, "postgresql.conf"), "a", encoding="utf-8") as file:
        file.write(
            f"unix_socket_directories = '{folder}'\n"
            f"shared_preload_libraries = '{os.environ['BENCH_LIBRARY']}'\n"
            "shared_buffers = '64MB'\n"
        )
    environment = {"PGHOST": folder}

    def ready():
        done = subprocess.run(["pg_isready", "-q", "-h", folder], check=False)
        return done.returncode == 0

    with services.running(["postgres", "-D", data], ready, signal="INT"):
        subprocess.run(
            ["psql", "-Xqc", "CREATE EXTENSION fencing"],
            check=True,
            env={**os.environ, **environment},
        )
        yield environment


def hand_over(session, size, _library):
    """Release, COMMIT, and the grant. One waiter; and a queue, each of which releases at once."""
    shared_memory = int(session.query("SHOW server_version_num")) >= 170000
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=os.environ["HOME"]))
        second = stack.enter_context(preloaded(folder))

        def times(kind, waiters, count, environment=None):
            done = subprocess.run(
                [*services.BOUND_TO_US, os.path.join(os.environ["BENCH_PROGRAMS"], "handover")]
                + [kind, str(waiters), str(count)],
                env={**os.environ, **(environment or {})},
                capture_output=True,
                text=True,
                check=False,
            )
            values = [float(line) for line in done.stdout.split()]
            if done.returncode or len(values) != count:
                raise RuntimeError(f"handover failed: {done.stderr}")
            return values

        def one(kind, environment=None):
            values = times(kind, 1, size.hand_overs, environment)
            return {"µs": median(values), "µs, the longest": max(values)}

        def queue(kind, environment=None):
            (value,) = times(kind, size.waiters, 1, environment)
            return {"ms": value / 1000, "µs each": value / size.waiters}

        yield Workload(
            f"hand_over: from release to grant, median of {size.hand_overs}",
            {
                LATE: lambda: one("fencing"),
                PRELOADED: lambda: one("fencing", second),
                ADVISORY: lambda: one("advisory"),
            },
            [
                Level(LATE, LATE, at_most(1000 if shared_memory else 5000)),
                Level(PRELOADED, PRELOADED, at_most(1000)),
                Comparison(PRELOADED, LATE),
                Comparison(PRELOADED, ADVISORY),
            ],
        )
        yield Workload(
            f"hand_over: a queue of {size.waiters}, from the first release to the last grant",
            {
                LATE: lambda: queue("fencing"),
                PRELOADED: lambda: queue("fencing", second),
                ADVISORY: lambda: queue("advisory"),
            },
            [Comparison(PRELOADED, LATE), Comparison(PRELOADED, ADVISORY)],
        )
