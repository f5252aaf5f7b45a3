# hold_shard.py: a worker of a program of docs/lock-services whose work a test steers: it says "working on STATE", and
# the next line of standard input is what it has made of that. It does not look at the event: it is the worker that does
# not know. While somebody else has the lock, it asks again.
#
#     hold_shard.py FOLDER PROGRAM SERVICE DSN SHARD HOLDER TTL
import importlib
import sys
import time

folder, program, service, dsn, shard, holder, ttl = sys.argv[1:]
sys.path.insert(0, folder)
module = importlib.import_module(program)


def work(state, lost):
    print(f"working on {state}", flush=True)
    return sys.stdin.readline().rstrip("\n")


while (answer := module.run(service, dsn, int(shard), holder, work, int(ttl))) == "busy":
    time.sleep(0.1)
print(answer, flush=True)
