"""Where jobs act: one host, or whichever server of a cluster is the root."""

from typing import Protocol

from penstock.node.node import Node
from penstock.simulation.cluster_host import ClusterHost


class Workplace(Protocol):
    """What a job asks of it; a `Host` is one."""

    @property
    def is_up(self) -> bool: ...

    @property
    def life(self) -> int: ...

    @property
    def node(self) -> Node: ...

    def now(self) -> int: ...

    def schedule_flush(self) -> None: ...


class RootPlace:
    """Held by the jobs of a cluster. Each epoch is a life of its own."""

    def __init__(self, hosts: list[ClusterHost]) -> None:
        self._hosts = hosts

    def _root(self) -> ClusterHost | None:
        for host in self._hosts:
            if host.may_serve():
                return host
        return None

    def _present(self) -> ClusterHost:
        root = self._root()
        assert root is not None, "asked whether it is up"
        return root

    @property
    def is_up(self) -> bool:
        return self._root() is not None

    @property
    def life(self) -> int:
        return self._present().election.epoch

    @property
    def node(self) -> Node:
        return self._present().node

    def now(self) -> int:
        return self._present().now()

    def schedule_flush(self) -> None:
        self._present().schedule_flush()
