# zookeeper_shard.py: work on a shard under a lock of ZooKeeper. The token is the czxid of the lock's node. Needs kazoo
# and psycopg 3.
#
#   CREATE TABLE shard (id int PRIMARY KEY, state text, fence_token bigint);
#   INSERT INTO shard VALUES (1, 'new');
#   SELECT fencing.protect('shard', 'fence_token', resource => 'shard:{id}', issuer => 'external');
#
# run() answers 'busy' when somebody else has the lock, 'stale' when somebody else has been granted it meanwhile,
# 'stopped' when the work has not been finished, else 'done'. `work` gets the state and an Event, and returns the new
# state, or None. It has to look at the event now and then, and to stop when it is set: the lock may be lost.
import threading

import psycopg
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import LockTimeout


def run(hosts, dsn, shard, holder, work, ttl=10):
    lost = threading.Event()

    def listen(state):
        # Also when it is only suspended: nobody can say then whether the session still stands.
        if state != KazooState.CONNECTED:
            lost.set()

    zookeeper = KazooClient(hosts, timeout=ttl)
    zookeeper.start()
    try:
        lock = zookeeper.Lock(f"/locks/shard/{shard}", holder)
        zookeeper.add_listener(listen)
        lock.acquire(timeout=2 * ttl)
        # The name of the node is its own, so this is not a successor's. The number at its end is no token.
        node = zookeeper.exists(f"{lock.path}/{lock.node}")
        if node is None:
            return "busy"
        token = node.czxid
        with psycopg.connect(dsn, autocommit=True) as db:
            # Before the first read: from here on nobody writes with an older token.
            db.execute("SELECT fencing.advance(%s, %s)", (f"shard:{shard}", token))  # fencing
            (state,) = db.execute("SELECT state FROM shard WHERE id = %s", (shard,)).fetchone()
            result = work(state, lost)
            if result is None:
                return "stopped"
            db.execute("UPDATE shard SET state = %s, fence_token = %s WHERE id = %s", (result, token, shard))
            return "done"
    except LockTimeout:
        return "busy"
    except psycopg.Error as error:
        if error.sqlstate != "TK001":
            raise
        return "stale"
    finally:
        # Ends the session, and the node with it.
        zookeeper.stop()
        zookeeper.close()
