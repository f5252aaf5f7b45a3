# hold_transfer.py: docs/examples/wallet with a test at the check: it says "lease" when it has the lease of the shards (or
# is handed their tokens), "checking KEY" when it has read and has yet to write, and goes on when a line
# comes on standard input. Then it says what has become of the request.
#
#     hold_transfer.py FOLDER-OF-THE-EXAMPLE DSN KEY TTL SHARD...|RESOURCE=TOKEN...
import sys

import psycopg

sys.path.insert(0, sys.argv[1])
import wallet

dsn, key, ttl, shards = sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5:]


def check(key):
    print(f"checking {key}", flush=True)
    return sys.stdin.readline() != ""


with psycopg.connect(dsn, autocommit=True) as db:
    if "=" in shards[0]:
        tokens = {resource: int(token) for resource, token in (shard.split("=") for shard in shards)}
    else:
        tokens = None
        while tokens is None:
            tokens = wallet.lease(db, map(int, shards), f"holder of {key}", ttl)
    print("lease", *(f"{resource}={token}" for resource, token in tokens.items()), flush=True)
    request = db.execute("SELECT key, source, target, amount FROM request WHERE key = %s", (key,)).fetchone()
    try:
        print(wallet.carry_out(db, tokens, request, check), flush=True)
    except wallet.Conflict:
        print("conflict", flush=True)
    except psycopg.Error as error:
        print(error.sqlstate, flush=True)
    if "=" not in shards[0]:
        wallet.release(db, tokens)
