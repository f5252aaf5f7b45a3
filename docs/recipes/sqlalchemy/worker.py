# worker.py RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with SQLAlchemy 1.4 and psycopg2.
# The page beside says what to mind.
import select
import sys
import threading

from sqlalchemy import BigInteger, Column, Integer, Text, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, declarative_base
from sqlalchemy.pool import NullPool

Base = declarative_base()


class Report(Base):
    __tablename__ = "report"
    name = Column(Text, primary_key=True)
    body = Column(Text)
    revision = Column(Integer)


class ReportLog(Base):
    __tablename__ = "report_log"
    id = Column(BigInteger, primary_key=True)
    name = Column(Text)
    holder = Column(Text)


engine = create_engine("postgresql+psycopg2://", isolation_level="REPEATABLE READ", future=True)
# acquire, renew and release are transactions of their own, and the heartbeat must not wait for a connection of a pool.
leases = create_engine("postgresql+psycopg2://", isolation_level="AUTOCOMMIT", poolclass=NullPool, future=True)


@event.listens_for(Session, "after_begin")
def bind(session, transaction, connection):
    """Every transaction of a session that has a lease in its `info` is bound to it before anything else."""
    lease = session.info.get("lease")
    if lease is None:
        return
    connection.execute(text("SELECT fencing.bind(:resource, :token)"), lease)  # fencing: first in every transaction


def work(lost):
    """The work: yours goes here. It looks at `lost` now and then, and gives up when it is set."""
    while not lost.is_set():
        if select.select([sys.stdin], [], [], 0.05)[0]:
            return sys.stdin.readline().rstrip("\n")
    return None


def heartbeat(lease, ttl, stop, lost):
    """Renews every third of the ttl. A renewal that fails counts as a lost lease: nobody knows any more."""
    try:
        with leases.connect() as db:
            while not stop.wait(ttl / 3):
                if db.execute(text("SELECT fencing.renew(:resource, :token)"), lease).scalar() is None:
                    break
    finally:
        if not stop.is_set():
            lost.set()


def write(lease, holder, body):
    """The whole transaction again when it fails with class 40, and on nothing else: TK001 must end the worker."""
    while True:
        try:
            # A new session each time: the objects of the failed one hold what it has read.
            with Session(engine, info={"lease": lease}) as session, session.begin():
                session.add(ReportLog(name=lease["resource"], holder=holder))
                session.flush()
                report = session.get(Report, lease["resource"])
                report.body = body
                report.revision += 1
            return
        except DBAPIError as error:
            if error.orig.pgcode not in ("40001", "40P01"):
                raise


def main(resource, holder, ttl):
    with leases.connect() as db:
        token = db.execute(text("SELECT token FROM fencing.acquire(:resource, make_interval(secs => :ttl), :holder,"
                                " '10 seconds')"), {"resource": resource, "ttl": ttl, "holder": holder}).scalar()
    if token is None:
        print("busy", flush=True)
        return 1
    lease, stop, lost = {"resource": resource, "token": token}, threading.Event(), threading.Event()
    print("granted", token, flush=True)
    beat = threading.Thread(target=heartbeat, args=(lease, ttl, stop, lost))
    beat.start()
    try:
        body = work(lost)
        if body is None or lost.is_set():
            print("lost", flush=True)
            return 1
        write(lease, holder, body)
        print("written", flush=True)
        return 0
    except DBAPIError as error:
        print("refused", error.orig.pgcode, flush=True)
        return 1
    finally:
        stop.set()
        beat.join()
        with leases.connect() as db:
            db.execute(text("SELECT fencing.release(:resource, :token)"), lease)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
