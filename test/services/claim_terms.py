# claim_terms.py: ask members of etcd all the time in which term they lead, with term_of of leader_epoch.py, and print
# "MEMBER TERM" whenever the answer of one has changed; until standard input ends.
#
#     claim_terms.py FOLDER-OF-THE-PROGRAM MEMBER...
import sys
import threading

import etcd3
import grpc

sys.path.insert(0, sys.argv[1])
import leader_epoch

finished = threading.Event()


def ask(member):
    host, port = member.split(":")
    etcd, known = etcd3.client(host, int(port), timeout=2), None
    while not finished.is_set():
        try:
            term = leader_epoch.term_of(etcd, member)
        except (etcd3.exceptions.Etcd3Exception, grpc.RpcError):
            finished.wait(0.05)  # it is dead, or there is no leader
            continue
        if term is not None and term != known:
            known = term
            print(f"{member} {term}\n", end="", flush=True)


threads = [threading.Thread(target=ask, args=(member,)) for member in sys.argv[2:]]
for thread in threads:
    thread.start()
sys.stdin.read()
finished.set()
