# deliver.py: send the payments of the outbox to the other bank. Needs psycopg 3.
#
#     deliver.py DSN-OF-THE-WALLETS DSN-OF-THE-BANK
#
# It may be killed anywhere and run twice at a time: a payment is sent once at least, and the bank pays once for each key.
import sys
import time

import psycopg

PAY = (
    "INSERT INTO payment (key, amount) VALUES (%s, %s)"
    " ON CONFLICT (key) DO NOTHING"  # key
)


def run(wallets, bank, sent=lambda key: None):
    """Send what there is to send, for ever. `sent` is called when a payment has been sent and this is not yet noted."""
    with psycopg.connect(wallets, autocommit=True) as db, psycopg.connect(bank, autocommit=True) as other:
        while True:
            payments = db.execute("SELECT key, amount FROM outbox WHERE NOT EXISTS"
                                  " (SELECT FROM delivery WHERE delivery.key = outbox.key)").fetchall()
            for key, amount in payments:
                other.execute(PAY, (key, amount))
                sent(key)
                db.execute("INSERT INTO delivery VALUES (%s) ON CONFLICT DO NOTHING", (key,))
            if not payments:
                time.sleep(0.05)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
