# job_queue.py: one job under a lease, with a heartbeat on a connection of its own. Needs psycopg 3.
#
#   CREATE TABLE job (id int PRIMARY KEY, payload text, state text NOT NULL DEFAULT 'new', fence_token bigint);
#   SELECT fencing.protect('job', 'fence_token');
#   INSERT INTO job VALUES (1, 'payload 1', 'new', fencing.next_token());
#
# Who adds a job presents a token, too: one that is lower than that of each later holder, so next_token will do.
#
# Choose a job with a plain SELECT, then run_job(). It answers 'busy' when somebody else has the job, 'stale' when
# somebody else has taken it over meanwhile, 'stopped' when the work has not been finished, else 'done', also for a job
# that does not exist. `work` gets the payload and an Event, and returns whether it has finished. It has to look at the
# event now and then, and to stop when it is set: the lease may be lost.
import threading
import psycopg

def run_job(dsn, job, holder, work, ttl=30):
    resource, lost = f"job:{job}", threading.Event()
    with psycopg.connect(dsn, autocommit=True) as db:
        lease = db.execute("SELECT token FROM fencing.acquire(%s, make_interval(secs => %s), %s, '10 seconds')",
                           (resource, ttl, holder)).fetchone()
        if lease is None:
            return "busy"
        token = lease[0]

        def heartbeat():
            try:
                with psycopg.connect(dsn, autocommit=True) as own:
                    while not lost.wait(ttl / 3):
                        if own.execute("SELECT fencing.renew(%s, %s)", (resource, token)).fetchone()[0] is None:
                            return
            finally:
                lost.set()
        threading.Thread(target=heartbeat).start()
        try:
            claimed = db.execute("UPDATE job SET state = 'running', fence_token = %s WHERE id = %s"
                                 " AND state <> 'done' RETURNING payload", (token, job)).fetchone()
            if claimed is None:
                return "done"
            if not work(claimed[0], lost):
                return "stopped"
            db.execute("UPDATE job SET state = 'done', fence_token = %s WHERE id = %s", (token, job))
            return "done"
        except psycopg.Error as error:
            if error.sqlstate != "TK001":
                raise
            return "stale"
        finally:
            lost.set()
            db.execute("SELECT fencing.release(%s, %s)", (resource, token))
