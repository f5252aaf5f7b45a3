# storm_worker.py: a worker of docs/examples/wallet whose check takes a while, as the checks of real life do, and says when
# it begins.
#
#     storm_worker.py FOLDER-OF-THE-EXAMPLE DSN HOLDER
import random
import sys
import time

sys.path.insert(0, sys.argv[1])
import wallet


def check(key):
    print(f"checking {key}", flush=True)
    time.sleep(random.uniform(0.01, 0.05))
    return True


wallet.run(sys.argv[2], sys.argv[3], check, lambda key, what: print(what, flush=True))
