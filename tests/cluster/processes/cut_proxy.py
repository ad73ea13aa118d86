"""A network between servers that a test cuts: a proxy in front of each server.

The servers know one another by the ports of the proxies. The proxy asks the machine whose process
has dialled it, so that it knows both ends. What a cut direction carries is not read any more, and
neither end learns of it: TCP goes on, as with a cable that is pulled. It flows again after healing.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.processes.servers import ClusterServer, RunningCluster, free_ports

CHUNK_BYTES = 65_536
# How long the dialling process may take until the machine shows its socket.
FIND_SECONDS = 10.0
POLL_SECONDS = 0.01


class CutNetwork:
    """Held by a test; `cut_network` ends it."""

    def __init__(self, count: int) -> None:
        self.ports = free_ports(count)
        self._cuts: set[tuple[str, str]] = set()
        self._delay_seconds = 0.0
        self._changed = threading.Condition()
        self._is_closed = False
        self._sockets: list[socket.socket] = []
        self._servers: list[ClusterServer] = []

    def attach(self, servers: list[ClusterServer]) -> None:
        """Before they are started."""
        self._servers = servers
        for port, server in zip(self.ports, servers, strict=True):
            listener = socket.create_server(("127.0.0.1", port))
            self._sockets.append(listener)
            threading.Thread(target=self._accept, args=(listener, server), daemon=True).start()

    def cut(self, sender: ClusterServer, receiver: ClusterServer) -> None:
        """One way: nothing that `sender` sends arrives, whoever has dialled."""
        with self._changed:
            self._cuts.add((sender.name, receiver.name))

    def isolate(self, server: ClusterServer) -> None:
        for other in self._servers:
            if other is not server:
                self.cut(server, other)
                self.cut(other, server)

    def delay(self, seconds: float) -> None:
        """Everything, in both directions, for each part that is read at once."""
        with self._changed:
            self._delay_seconds = seconds

    def heal(self) -> None:
        with self._changed:
            self._cuts.clear()
            self._delay_seconds = 0.0
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            sockets = list(self._sockets)
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listener: socket.socket, server: ClusterServer) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, (_, port) = listener.accept()
                self._remember(near)
                threading.Thread(target=self._carry, args=(near, port, server), daemon=True).start()

    def _carry(self, near: socket.socket, port: int, server: ClusterServer) -> None:
        dialler = self._dialler(port)
        if dialler is None:
            near.close()
            return
        try:
            far = socket.create_connection(("127.0.0.1", server.port))
        except OSError:
            # Nobody listens; the other end learns it as it would without us.
            near.close()
            return
        self._remember(far)
        ways = ((near, far, (dialler, server.name)), (far, near, (server.name, dialler)))
        for source, sink, way in ways:
            threading.Thread(target=self._pump, args=(source, sink, way), daemon=True).start()

    def _remember(self, one: socket.socket) -> None:
        with self._changed:
            self._sockets.append(one)

    def _dialler(self, port: int) -> str | None:
        """The name of the server whose process holds this end of a connection."""
        deadline = time.monotonic() + FIND_SECONDS
        while time.monotonic() < deadline and not self._is_closed:
            inode = inode_of_port(port)
            for server in self._servers:
                if inode and server.is_running and f"socket:[{inode}]" in links_of(server.pid):
                    return server.name
            time.sleep(POLL_SECONDS)
        return None

    def _pump(self, source: socket.socket, sink: socket.socket, way: tuple[str, str]) -> None:
        try:
            while True:
                self._await_open(way)
                octets = source.recv(CHUNK_BYTES)
                # It may have been cut while we waited for something to carry.
                self._await_open(way)
                if self._delay_seconds:
                    time.sleep(self._delay_seconds)
                if not octets:
                    break
                sink.sendall(octets)
        except OSError:
            pass
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _await_open(self, way: tuple[str, str]) -> None:
        with self._changed:
            while way in self._cuts and not self._is_closed:
                self._changed.wait()


def inode_of_port(port: int) -> str:
    """Of the socket on this machine whose own port it is; empty if there is none."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[1].rpartition(":")[2], 16) == port and words[9] != "0":
            return words[9]
    return ""


def links_of(pid: int) -> set[str]:
    """What a process has open."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(entry.readlink()))
    return found


@contextmanager
def cut_network(folder: Path, count: int) -> Iterator[tuple[RunningCluster, CutNetwork]]:
    """A cluster that is not started yet, and the network between its servers."""
    network = CutNetwork(count)
    cluster = RunningCluster(folder, count, network.ports)
    try:
        network.attach(cluster.servers)
        yield cluster, network
    finally:
        cluster.close()
        network.close()
