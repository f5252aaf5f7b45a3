# worker.py RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with Django 3.2 or later. The page
# beside says what to mind.
import os
import select
import sys
import threading
from contextlib import contextmanager

import django
from django.conf import settings
from django.db import DatabaseError, connection, models, transaction

if not settings.configured:  # a management command of yours has the settings of your project
    try:
        from django.db.backends.postgresql.psycopg_any import IsolationLevel
        REPEATABLE_READ = IsolationLevel.REPEATABLE_READ
    except ImportError:  # before Django 4.2
        from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ as REPEATABLE_READ
    settings.configure(DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
        "USER": os.environ["PGUSER"], "NAME": os.environ["PGDATABASE"],
        "OPTIONS": {"isolation_level": REPEATABLE_READ}}})
    django.setup()


class Report(models.Model):
    name = models.TextField(primary_key=True)
    body = models.TextField(null=True)
    revision = models.IntegerField(default=0)
    fence_token = models.BigIntegerField(null=True, editable=False)  # the guard's; nobody has to map it

    class Meta:
        app_label, db_table, managed = "recipe", "report", False


class ReportLog(models.Model):
    id = models.BigAutoField(primary_key=True)
    name = models.TextField()
    holder = models.TextField()

    class Meta:
        app_label, db_table, managed = "recipe", "report_log", False


def ask(sql, *arguments):
    """A call in a transaction of its own: the first column of its first row, or None."""
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments)
        row = cursor.fetchone()
        return row and row[0]


@contextmanager
def fenced(resource, token):
    """atomic(), bound to the lease: every write of a holder stands in such a block. Durable: inside of another block it
    would see what that has seen, which may be older than the lease, and could not be tried again."""
    with transaction.atomic(durable=True):
        ask("SELECT fencing.bind(%s, %s)", resource, token)  # fencing: first in every transaction
        yield


def work(lost):
    """The work: yours goes here. It looks at `lost` now and then, and gives up when it is set."""
    while not lost.is_set():
        if select.select([sys.stdin], [], [], 0.05)[0]:
            return sys.stdin.readline().rstrip("\n")
    return None


def heartbeat(resource, token, ttl, stop, lost):
    """Renews every third of the ttl. A renewal that fails counts as a lost lease: nobody knows any more."""
    try:
        while not stop.wait(ttl / 3):
            if ask("SELECT fencing.renew(%s, %s)", resource, token) is None:
                break
    finally:
        if not stop.is_set():
            lost.set()
        connection.close()  # that of this thread: Django gives each its own


def write(resource, token, holder, body):
    """The whole transaction again when it fails with class 40, and on nothing else: TK001 must end the worker."""
    while True:
        try:
            with fenced(resource, token):
                ReportLog.objects.create(name=resource, holder=holder)
                report = Report.objects.get(name=resource)
                report.body = body
                report.revision += 1
                report.save()
            return
        except DatabaseError as error:
            if sqlstate(error) not in ("40001", "40P01"):
                raise


def sqlstate(error):
    """psycopg 3, which Django takes since 4.2 where it is there, says sqlstate, psycopg2 pgcode."""
    return getattr(error.__cause__, "sqlstate", None) or getattr(error.__cause__, "pgcode", None)


def main(resource, holder, ttl):
    token = ask("SELECT token FROM fencing.acquire(%s, make_interval(secs => %s), %s, '10 seconds')",
                resource, ttl, holder)
    if token is None:
        print("busy", flush=True)
        return 1
    stop, lost = threading.Event(), threading.Event()
    print("granted", token, flush=True)
    beat = threading.Thread(target=heartbeat, args=(resource, token, ttl, stop, lost))
    beat.start()
    try:
        body = work(lost)
        if body is None or lost.is_set():
            print("lost", flush=True)
            return 1
        write(resource, token, holder, body)
        print("written", flush=True)
        return 0
    except DatabaseError as error:
        print("refused", sqlstate(error) or error, flush=True)
        return 1
    finally:
        stop.set()
        beat.join()
        ask("SELECT fencing.release(%s, %s)", resource, token)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
