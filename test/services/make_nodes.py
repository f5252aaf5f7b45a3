# make_nodes.py: make sequential nodes of ZooKeeper and delete them again, as locks do. Prints the number in the name of
# each, and its czxid.
#
#     make_nodes.py HOSTS PARENT COUNT
import sys

from kazoo.client import KazooClient

hosts, parent, count = sys.argv[1:]
zookeeper = KazooClient(hosts)
zookeeper.start()
zookeeper.ensure_path(parent)
paths = []
for _ in range(int(count)):
    path, stat = zookeeper.create(f"{parent}/lock-", sequence=True, ephemeral=True, include_data=True)
    print(int(path[-10:]), stat.czxid)
    paths.append(path)
# All at the end: a container that is empty for a moment can be gone.
for path in paths:
    zookeeper.delete(path)
zookeeper.stop()
