# sqlalchemy_traps.py FOLDER TRAP...: the traps of SQLAlchemy that docs/recipes/sqlalchemy.md tells of, with the models
# and the hook of the program in that folder.
import sys

sys.path.insert(0, sys.argv.pop(1))
from sqlalchemy import BigInteger, Column, create_engine, event, text, update
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import flag_modified

import traps
import worker
from worker import Report

Report.fence_token = Column(BigInteger)


def change(session, name, **values):
    report = session.get(Report, name)
    for column, value in values.items():
        setattr(report, column, value)
    session.flush()


def tried(name, attempt, token=None, engine=worker.engine):
    """What comes of the attempt in a session of its own that has the lease with this token, if any."""
    def in_session():
        info = {"lease": {"resource": name, "token": token}} if token else {}
        with Session(engine, info=info, future=True) as session:
            attempt(session)
            session.commit()
    return traps.outcome(name, in_session)


def bulk(name):
    rows = [{"name": name, "body": text} for text in ("first", "last")]
    return lambda session: session.bulk_update_mappings(Report, rows)


def core(name):
    return lambda session: session.execute(update(Report).where(Report.name == name).values(body="of core"))


def two_transactions(name):
    token = traps.acquire(name)

    def attempt(session):
        change(session, name, body="first")
        session.commit()
        with session.begin_nested():
            change(session, name, body="second")
        session.commit()
        traps.acquire(name, "always")
        change(session, name, body="late")
    return tried(name, attempt, token)


def without_session(name):
    def attempt():
        with worker.engine.begin() as connection:
            connection.execute(text("UPDATE report SET body = 'x' WHERE name = :name"), {"name": name})
    return traps.outcome(name, attempt)


def autocommit(name):
    engine = create_engine("postgresql+psycopg2://", isolation_level="AUTOCOMMIT", future=True)
    return tried(name, lambda session: change(session, name, body="x"), traps.acquire(name), engine)


def own_token_again(name, flag):
    """The second write of a holder that presents its token in the column: it is in the row already."""
    token = traps.acquire(name)
    first = tried(name, lambda session: change(session, name, body="first", fence_token=token))

    def second(session):
        report = session.get(Report, name)
        report.body, report.fence_token = "second", token
        if flag:
            flag_modified(report, "fence_token")
    return f"{first}, then {tried(name, second)}"


def hooked(name, token, attempt):
    """With a hook that names the column in each UPDATE that the unit of work writes."""
    def present(mapper, connection, report):
        report.fence_token = token
        flag_modified(report, "fence_token")
    event.listen(Report, "before_update", present)
    try:
        return tried(name, attempt)
    finally:
        event.remove(Report, "before_update", present)


def column(name):
    token = traps.acquire(name)
    return tried(name, lambda session: change(session, name, body="x", fence_token=token))


traps.run({
    "bulk": lambda name: tried(name, bulk(name), traps.acquire(name)),
    "stale bulk": lambda name: tried(name, bulk(name), traps.stale(name)),
    "core": lambda name: tried(name, core(name), traps.acquire(name)),
    "stale core": lambda name: tried(name, core(name), traps.stale(name)),
    "two transactions": two_transactions,
    "without session": without_session,
    "autocommit": autocommit,
    "column": column,
    # On a table whose guard takes the column:
    "same token": lambda name: own_token_again(name, flag=False),
    "flagged token": lambda name: own_token_again(name, flag=True),
    "hook": lambda name: hooked(name, traps.acquire(name), lambda session: change(session, name, body="of the hook")),
    "stale hook": lambda name: hooked(name, traps.stale(name), lambda session: change(session, name, body="of the hook")),
    "hook and bulk": lambda name: hooked(name, traps.acquire(name), bulk(name)),
    "hook and core": lambda name: hooked(name, traps.acquire(name), core(name)),
})
