# redis_shard.py: work on a shard under a lock of Redis. The token is a counter that never expires. Needs redis and
# psycopg 3; and a Redis that keeps what it has answered: one server, with appendonly yes and appendfsync always.
#
#   CREATE TABLE shard (id int PRIMARY KEY, state text, fence_token bigint);
#   INSERT INTO shard VALUES (1, 'new');
#   SELECT fencing.protect('shard', 'fence_token', resource => 'shard:{id}', issuer => 'external');
#
# run() answers 'busy' when somebody else has the lock, 'stale' when somebody else has been granted it meanwhile,
# 'stopped' when the work has not been finished, else 'done'. `work` gets the state and an Event, and returns the new
# state, or None. It has to look at the event now and then, and to stop when it is set: the lock may be lost.
import threading
import uuid

import psycopg
import redis

# One script each, since others run in between of what are two commands.
ACQUIRE = """if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end"""
RENEW = """if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"""
RELEASE = """if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"""


def run(server, dsn, shard, holder, work, ttl=10):
    lost, lock, counter = threading.Event(), f"lock:shard:{shard}", f"token:shard:{shard}"
    host, port = server.split(":")
    store = redis.Redis(host, int(port))
    # Nobody else's, not even that of the same holder started twice.
    mine, milliseconds = f"{holder} {uuid.uuid4()}", int(ttl * 1000)

    def heartbeat():
        try:
            while not lost.wait(ttl / 3):
                if not store.eval(RENEW, 1, lock, mine, milliseconds):
                    return
        finally:
            lost.set()

    token = store.eval(ACQUIRE, 2, lock, counter, mine, milliseconds)
    if token is None:
        return "busy"
    try:
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
            store.eval(RELEASE, 1, lock, mine)
        except redis.RedisError:
            pass  # it ends by itself
