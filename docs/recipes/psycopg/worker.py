# worker.py RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with psycopg 3. The page beside
# says what to mind.
import contextlib
import select
import sys
import threading

import psycopg


def work(lost):
    """The work: yours goes here. It looks at `lost` now and then, and gives up when it is set."""
    while not lost.is_set():
        if select.select([sys.stdin], [], [], 0.05)[0]:
            return sys.stdin.readline().rstrip("\n")
    return None


def heartbeat(resource, token, ttl, stop, lost):
    """Renews every third of the ttl. A renewal that fails counts as a lost lease: nobody knows any more."""
    try:
        with psycopg.connect("", autocommit=True) as db:
            while not stop.wait(ttl / 3):
                if db.execute("SELECT fencing.renew(%s, %s)", (resource, token)).fetchone()[0] is None:
                    break
    finally:
        if not stop.is_set():
            lost.set()


def write(db, resource, token, holder, body):
    """The whole transaction again when it fails with class 40, and on nothing else: TK001 must end the worker."""
    while True:
        try:
            with db.transaction():
                db.execute("SELECT fencing.bind(%s, %s)", (resource, token))  # fencing: first in every transaction
                db.execute("INSERT INTO report_log (name, holder) VALUES (%s, %s)", (resource, holder))
                db.execute("UPDATE report SET body = %s, revision = revision + 1 WHERE name = %s", (body, resource))
            return
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            continue


def main(resource, holder, ttl):
    # autocommit: acquire, renew and release are transactions of their own; transaction() still makes a block.
    with psycopg.connect("", autocommit=True) as db:
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        lease = db.execute("SELECT token FROM fencing.acquire(%s, make_interval(secs => %s), %s, '10 seconds')",
                           (resource, ttl, holder)).fetchone()
        if lease is None:
            print("busy", flush=True)
            return 1
        token, stop, lost = lease[0], threading.Event(), threading.Event()
        print("granted", token, flush=True)
        beat = threading.Thread(target=heartbeat, args=(resource, token, ttl, stop, lost))
        beat.start()
        try:
            body = work(lost)
            if body is None or lost.is_set():
                print("lost", flush=True)
                return 1
            write(db, resource, token, holder, body)
            print("written", flush=True)
            return 0
        except psycopg.Error as error:
            print("refused", error.sqlstate, flush=True)
            return 1
        finally:
            stop.set()
            beat.join()
            with contextlib.suppress(psycopg.OperationalError):  # without a connection the lease ends by itself
                db.execute("SELECT fencing.release(%s, %s)", (resource, token))


sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
