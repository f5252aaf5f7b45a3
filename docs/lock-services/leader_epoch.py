# leader_epoch.py: work on a shard as long as the member of etcd beside this worker leads. The token is the term of its
# leadership: no lock is taken. Needs etcd3 and psycopg 3.
#
#   CREATE TABLE shard (id int PRIMARY KEY, state text, fence_token bigint);
#   INSERT INTO shard VALUES (1, 'new');
#   SELECT fencing.protect('shard', 'fence_token', resource => 'shard:{id}', issuer => 'external');
#
# run() answers 'follower' when another member leads, 'stale' when another has been elected meanwhile, else 'done'.
# `work` gets the state and returns the new one.
import etcd3
import psycopg


def term_of(etcd, member):
    """The term in which this member leads; None when it does not."""

    def leads(status):
        return status.leader is not None and f"http://{member}" in status.leader.client_urls

    # The two numbers of a status are not of one moment: the leader is that of the last election, the term that of the
    # last entry which the member has applied. Until a new leader has applied its first, it shows the term of the one
    # before: two leaders with one token. A read waits for that entry: a term that is the same before and after is right.
    before = etcd.status()
    etcd.get("/")
    after = etcd.status()
    if leads(before) and leads(after) and before.raft_term == after.raft_term:
        return after.raft_term
    return None


def run(member, dsn, shard, holder, work, ttl=10):
    host, port = member.split(":")
    token = term_of(etcd3.client(host, int(port), timeout=ttl), member)
    if token is None:
        return "follower"
    try:
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute("SELECT fencing.advance(%s, %s)", (f"shard:{shard}", token))  # fencing
            (state,) = db.execute("SELECT state FROM shard WHERE id = %s", (shard,)).fetchone()
            result = work(state, None)
            db.execute("UPDATE shard SET state = %s, fence_token = %s WHERE id = %s", (result, token, shard))
            return "done"
    except psycopg.Error as error:
        if error.sqlstate != "TK001":
            raise
        return "stale"
