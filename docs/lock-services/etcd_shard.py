# etcd_shard.py: work on a shard under a lock of etcd. The token is the revision at which the lock's key was made. Needs
# etcd3 and psycopg 3.
#
#   CREATE TABLE shard (id int PRIMARY KEY, state text, fence_token bigint);
#   INSERT INTO shard VALUES (1, 'new');
#   SELECT fencing.protect('shard', 'fence_token', resource => 'shard:{id}', issuer => 'external');
#
# run() answers 'busy' when somebody else has the lock, 'stale' when somebody else has been granted it meanwhile,
# 'stopped' when the work has not been finished, else 'done'. `work` gets the state and an Event, and returns the new
# state, or None. It has to look at the event now and then, and to stop when it is set: the lock may be lost.
import threading

import etcd3
import psycopg


def run(member, dsn, shard, holder, work, ttl=10):
    lost, key = threading.Event(), f"/locks/shard/{shard}"
    host, port = member.split(":")
    etcd = etcd3.client(host, int(port), timeout=ttl)
    lease = etcd.lease(ttl)

    def heartbeat():
        try:
            while not lost.wait(ttl / 3):
                if lease.refresh()[0].TTL == 0:
                    return
        finally:
            lost.set()

    try:
        # The key and its revision in one transaction: who asks for it later can be told a successor's.
        taken, answers = etcd.transaction(
            compare=[etcd.transactions.create(key) == 0],
            success=[etcd.transactions.put(key, holder, lease), etcd.transactions.get(key)],
            failure=[],
        )
        if not taken:
            return "busy"
        _, entry = answers[1][0]
        token = entry.create_revision
        threading.Thread(target=heartbeat).start()
        with psycopg.connect(dsn, autocommit=True) as db:
            # Before the first read: from here on nobody writes with an older token.
            db.execute("SELECT fencing.advance(%s, %s)", (f"shard:{shard}", token))  # fencing
            (state,) = db.execute("SELECT state FROM shard WHERE id = %s", (shard,)).fetchone()
            result = work(state, lost)
            if result is None:
                return "stopped"
            db.execute("UPDATE shard SET state = %s, fence_token = %s WHERE id = %s", (result, token, shard))
            return "done"
    except psycopg.Error as error:
        if error.sqlstate != "TK001":
            raise
        return "stale"
    finally:
        lost.set()
        try:
            lease.revoke()  # and the key with it
        except etcd3.exceptions.Etcd3Exception:
            pass  # it ends by itself
