# django_traps.py FOLDER TRAP...: the traps of Django that docs/recipes/django.md tells of, with the models and
# the block of the program in that folder.
import sys

sys.path.insert(0, sys.argv.pop(1))
import worker
from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import path
from worker import Report, ask, fenced

import traps


def save(name, text="saved", **options):
    report = Report.objects.get(name=name)
    report.body = text
    report.save(**options)


def in_block(name, token, write):
    """What comes of a write in a block that is bound to the lease."""
    def attempt():
        with fenced(name, token):
            write(name)
    return traps.outcome(name, attempt)


def bulk_update(name):
    report = Report.objects.get(name=name)
    report.body = "in bulk"
    Report.objects.bulk_update([report], ["body"])


def after(name, call, write):
    """What comes of a write after a call that was meant to say the token, without a block around them."""
    def attempt():
        ask(*call(traps.acquire(name)))
        write(name)
    return traps.outcome(name, attempt)


def bind(name):
    return lambda token: ("SELECT fencing.bind(%s, %s)", name, token)


def set_local(token):
    return "SELECT set_config('fencing.token', %s, true)", str(token)


def setting_in_block(name):
    token = traps.acquire(name)

    def attempt():
        with transaction.atomic():
            ask(*set_local(token))
            save(name)
    return traps.outcome(name, attempt)


def read_late(name):
    """A stale worker reads the row after its successor has written it, and saves it, with the successor's token in it."""
    traps.stale(name)
    return traps.outcome(name, lambda: save(name, "of the stale one"))


def caught_inside(name):
    """An error that is caught inside of atomic(): the block is over."""
    def attempt():
        with fenced(name, traps.acquire(name)):
            try:
                ask("SELECT fencing.bind(%s, %s)", name, 1 << 60)
            except Exception:
                pass
            save(name)
    return traps.outcome(name, attempt)


def nested(name):
    """fenced() inside of a block that has read before the lease was granted."""
    def attempt():
        with transaction.atomic(), fenced(name, traps.acquire(name)):
            save(name)
    return traps.outcome(name, attempt)


def grant_in_request(name, view_of):
    """acquire in a view, with ATOMIC_REQUESTS: seen by whoever comes meanwhile?"""
    def grant(request):
        try:
            ask("SELECT token FROM fencing.acquire(%s)", name)
        except Exception as error:
            return HttpResponse(traps.sqlstate(error))
        return HttpResponse("seen" if traps.lease(name) else "not seen")
    settings.ROOT_URLCONF = (path("", view_of(grant)),)
    settings.ALLOWED_HOSTS = ["testserver"]
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    handler = BaseHandler()
    handler.load_middleware()
    try:
        return handler.get_response(RequestFactory().get("/")).content.decode()
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False


traps.run({
    "save": lambda name: in_block(name, traps.acquire(name), save),
    "stale save": lambda name: in_block(name, traps.stale(name), save),
    "update_fields": lambda name: in_block(name, traps.acquire(name), lambda name: save(name, update_fields=["body"])),
    "bulk_update": lambda name: in_block(name, traps.acquire(name), bulk_update),
    "stale bulk_update": lambda name: in_block(name, traps.stale(name), bulk_update),
    "setting": setting_in_block,
    "setting alone": lambda name: after(name, set_local, save),
    "bind alone": lambda name: after(name, bind(name), save),
    "bulk_update alone": lambda name: after(name, bind(name), bulk_update),
    "read late": read_late,
    "caught inside": caught_inside,
    "nested": nested,
    "grant in request": lambda name: grant_in_request(name, lambda view: view),
    "non-atomic request": lambda name: grant_in_request(name, transaction.non_atomic_requests),
    # On a table whose guard takes the column:
    "read late, column": read_late,
    "update_fields, column": lambda name: traps.outcome(name, lambda: save(name, update_fields=["body"])),
})
