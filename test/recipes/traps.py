# traps.py: what the traps of the Python drivers share. A trap is a function that gets the name of its report and
# returns what came of it; it is tried when its name is an argument of the program.
import sys

import psycopg


def acquire(name, steal="never"):
    """A new holder of the report: its token."""
    with psycopg.connect("", autocommit=True) as db:
        return db.execute("SELECT token FROM fencing.acquire(%s, '1 hour', 'trap', steal => %s)",
                          (name, steal)).fetchone()[0]


def stale(name):
    """The token of a holder that has been followed by another, who has written the report."""
    old = acquire(name)
    new = acquire(name, "always")
    with psycopg.connect("") as db:
        # Both: where the guard knows no resource, bind does not reach the table.
        db.execute("SELECT fencing.bind(%s, %s), set_config('fencing.token', %s, true)", (name, new, str(new)))
        db.execute("UPDATE report SET body = 'of the successor' WHERE name = %s", (name,))
    return old


def body(name):
    with psycopg.connect("") as db:
        return db.execute("SELECT body FROM report WHERE name = %s", (name,)).fetchone()[0]


def lease(name):
    """Whether others see a lease of the report."""
    with psycopg.connect("") as db:
        return db.execute("SELECT count(*) FROM fencing.lookup(%s)", (name,)).fetchone()[0] == 1


def sqlstate(error):
    """The SQLSTATE of a driver's error, or of the one that an ORM has wrapped."""
    while error is not None:
        for name in "sqlstate", "pgcode":
            if getattr(error, name, None):
                return getattr(error, name)
        error = getattr(error, "orig", None) or error.__cause__
    return "no SQLSTATE"


def outcome(name, attempt):
    """What came of the attempt, and what the report holds afterwards."""
    try:
        attempt()
        result = "ok"
    except Exception as error:
        result = sqlstate(error)
    return f"{result}, {body(name)}"


def run(traps):
    for name in sys.argv[1:]:
        print(f"{name}: {traps[name](name)}", flush=True)
