"""services.py: the other lock services, and a second cluster, in the throw-away folder. Each runs only
while a workload is measured, is stopped by its pid, and dies with this process whatever happens."""

import os
import signal as signals
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager

# A server that this process starts must not outlive it, even if it is killed.
BOUND_TO_US = ["setpriv", "--pdeathsig", "KILL", "--"]


def free_ports(count):
    """Ports of the loopback that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports


@contextmanager
def running(command, ready, signal="TERM"):
    """A server, from the moment on at which it is ready."""
    with tempfile.TemporaryFile(mode="w+") as log:
        server = subprocess.Popen(
            BOUND_TO_US + command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + 60
            while not ready():
                if server.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(f"did not start: {' '.join(command)}\n{log.read()}")
                time.sleep(0.05)
            yield
        finally:
            server.send_signal(getattr(signals, f"SIG{signal}"))
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def redis(folder):
    """Every write is in the log on the disk before it is answered; the same socket as PostgreSQL's."""
    path = os.path.join(folder, "redis.sock")
    command = ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder]
    command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
    command += ["--auto-aof-rewrite-percentage", "0"]  # nothing at a time of its own choice
    with running(command, lambda: os.path.exists(path)):
        yield path


@contextmanager
def etcd(folder):
    """One member. Its log is synced before it answers; that is its default."""
    client, peer = (f"127.0.0.1:{port}" for port in free_ports(2))
    command = ["etcd", "--name", "bench", "--data-dir", os.path.join(folder, "etcd")]
    command += ["--listen-client-urls", f"http://{client}", "--advertise-client-urls", f"http://{client}"]
    command += ["--listen-peer-urls", f"http://{peer}", "--initial-advertise-peer-urls", f"http://{peer}"]
    command += ["--initial-cluster", f"bench=http://{peer}", "--logger", "zap", "--log-level", "error"]
    with running(command, lambda: _listens(int(client.rsplit(":", 1)[1]))):
        yield client


@contextmanager
def zookeeper(folder):
    """One server. Its log is synced before it answers; that is its default."""
    (port,) = free_ports(1)
    configuration = os.path.join(folder, "zoo.cfg")
    with open(configuration, "w", encoding="ascii") as file:
        file.write(
            f"tickTime=2000\ndataDir={folder}/zookeeper\nclientPort={port}\n"
            "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            "snapCount=100000000\n"  # nothing at a time of its own choice
        )
    command = ["java", "-Xmx512m", "-cp", "/usr/share/java/zookeeper.jar"]
    command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", configuration]
    with running(command, lambda: _listens(port)):
        yield f"127.0.0.1:{port}"
