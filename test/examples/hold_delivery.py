# hold_delivery.py: docs/examples/wallet/deliver.py, which a test holds when a payment has been sent and that is not yet
# noted: it says "sent KEY", and goes on when a line comes on standard input.
#
#     hold_delivery.py FOLDER-OF-THE-EXAMPLE DSN-OF-THE-WALLETS DSN-OF-THE-BANK
import sys

sys.path.insert(0, sys.argv[1])
import deliver


def sent(key):
    print(f"sent {key}", flush=True)
    sys.stdin.readline()


deliver.run(sys.argv[2], sys.argv[3], sent)
