# psycopg_traps.py TRAP...: the traps of psycopg that docs/recipes/psycopg.md tells of.
import psycopg

import traps

BIND = "SELECT fencing.bind(%s, %s)"
UPDATE = "UPDATE report SET body = %s WHERE name = %s"


def executemany(name, token, autocommit):
    """Several rows with one call, after bind."""
    def attempt():
        with psycopg.connect("", autocommit=autocommit) as db:
            db.execute(BIND, (name, token))
            db.cursor().executemany(UPDATE, [("first", name), ("second", name)])
    return traps.outcome(name, attempt)


def pipeline(name):
    """In a pipeline, bind has not been answered when the next statement is sent: its refusal comes out later."""
    token, place = traps.stale(name), "bind"

    def attempt():
        nonlocal place
        with psycopg.connect("") as db, db.pipeline():
            db.execute(BIND, (name, token))
            place = "update"
            db.execute(UPDATE, ("of a pipeline", name))
            place = "end"
    return f"{traps.outcome(name, attempt)}, seen {'at once' if place == 'bind' else 'later'}"


def prepared(name):
    """psycopg prepares a statement that it sees for the sixth time; the seventh call meets a new holder."""
    token = traps.acquire(name)
    with psycopg.connect("", autocommit=True) as db:
        def write(text):
            with db.transaction():
                db.execute(BIND, (name, token))
                db.execute(UPDATE, (text, name))
        for number in range(7):
            write(str(number))
        count = db.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%fencing.bind%'"
                           " OR statement LIKE 'UPDATE report%'").fetchone()[0]
        traps.acquire(name, "always")
        return f"{count} prepared, {traps.outcome(name, lambda: write('late'))}"


def open_grant(name):
    """Without autocommit, acquire opens a transaction, and the grant is nobody's before COMMIT."""
    with psycopg.connect("") as db, psycopg.connect("", autocommit=True) as other:
        db.execute("SELECT token FROM fencing.acquire(%s)", (name,))
        seen = other.execute("SELECT count(*) FROM fencing.lookup(%s)", (name,)).fetchone()[0]
        got = other.execute("SELECT count(*) FROM fencing.acquire(%s)", (name,)).fetchone()[0]
        db.commit()
        after = other.execute("SELECT count(*) FROM fencing.lookup(%s)", (name,)).fetchone()[0]
        return f"seen {seen}, free for another {got}, seen after commit {after}"


def grant_in_block(name):
    def attempt():
        with psycopg.connect("") as db:
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            db.execute("SELECT token FROM fencing.acquire(%s)", (name,))
    return traps.outcome(name, attempt)


traps.run({
    "executemany": lambda name: executemany(name, traps.acquire(name), autocommit=False),
    "stale executemany": lambda name: executemany(name, traps.stale(name), autocommit=False),
    "lone bind": lambda name: executemany(name, traps.acquire(name), autocommit=True),
    "pipeline": pipeline,
    "prepared": prepared,
    "open grant": open_grant,
    "grant in block": grant_in_block,
})
