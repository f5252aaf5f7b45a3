# hold_job.py: a worker of docs/recipes/job_queue.py whose work a test steers: it says "working", and has finished when a
# line comes on standard input. An obedient one looks at the event meanwhile, a stubborn one does not.
#
#     hold_job.py FOLDER-OF-THE-RECIPE DSN JOB HOLDER TTL obedient|stubborn
import select
import sys

sys.path.insert(0, sys.argv[1])
import job_queue

dsn, job, holder, ttl, manner = sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), sys.argv[6]


def work(payload, lost):
    print(f"working on {payload}", flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        if manner == "obedient" and lost.is_set():
            return False
    sys.stdin.readline()
    return True


print(job_queue.run_job(dsn, job, holder, work, ttl), flush=True)
