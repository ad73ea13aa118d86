"""What is true of a cluster at every moment, seen from outside, and what must be true in the end."""

import hashlib
from typing import Final

from penstock.broker.streams.folders import ROOT
from penstock.cluster.record import ClusterRecord
from penstock.node.stored import StoredState
from penstock.simulation.cluster_host import ClusterHost
from penstock.simulation.cluster_ledger import ClusterLedger, held_by
from penstock.simulation.recovery_ledger import definitions_of

# Every look compares messages, and so many looks make one that compares everything else.
EVERYTHING_EVERY: Final = 4


def stored_of(host: ClusterHost) -> StoredState:
    stored = host.node.stored
    assert stored is not None, "a member has a disk"
    return stored


def counts(judge: ClusterHost, host: ClusterHost) -> bool:
    """Whether a server, with the disk that it has, is a member in the view of another one."""
    election = judge.member.election
    return election is not None and election.is_counted(host.name, host.store_id)


class ClusterChecks:
    """Held by the run."""

    def __init__(self, ledger: ClusterLedger, hosts: list[ClusterHost]) -> None:
        self._ledger = ledger
        self._hosts = hosts
        self._looks = 0
        # By cluster, epoch and version.
        self._records: dict[tuple[bytes, tuple[int, int]], ClusterRecord] = {}

    def look(self) -> None:
        """Whoever the highest record of a majority names as in sync has everything confirmed, and
        nothing whose dequeue was completed (I2, I5). Servers that are down or in the middle of a
        tick are left out: what they have is checked later.
        """
        up = [host for host in self._hosts if host.is_up]
        if not up:
            return
        self._look_at_records(up)
        judge = max(up, key=_order_of)
        top = judge.record
        names = [host.name for host in up if counts(judge, host)]
        if not top.is_majority(names):
            return
        self._looks += 1
        is_close = self._looks % EVERYTHING_EVERY == 0
        if is_close:
            self._look_at_definitions(up)
        for host in up:
            is_in_sync = host.name in top.in_sync and counts(judge, host)
            if is_in_sync and not host.is_in_tick():
                complaints = self._ledger.wrong_in(held_by(host.node))
                if is_close:
                    complaints += self._ledger.broken_in(host.node)
                for complaint in complaints:
                    self._ledger.violated(f"{host.name} of {top.in_sync}: {complaint} (I2)")

    def _look_at_records(self, up: list[ClusterHost]) -> None:
        """A version of an epoch is one record (I3): servers refuse another one, and go on."""
        for host in up:
            record = host.record
            key = (record.cluster_id, record.order())
            # Servers that are formatted at different times begin with different members.
            if record.epoch and self._records.setdefault(key, record) != record:
                known = self._records[key]
                self._ledger.violated(f"{host.name} has {record}, and there was {known} (I3)")

    def _look_at_definitions(self, up: list[ClusterHost]) -> None:
        """Of backups, whose state is at every moment what some root had (I4)."""
        for host in up:
            if host.member.primary is None and not host.is_in_tick():
                at = stored_of(host).store.syn
                for complaint in self._ledger.definitions.wrong_in(host.node, at):
                    self._ledger.violated(f"{host.name}: {complaint}")

    def _positions(self, hosts: list[ClusterHost]) -> list[tuple[int, int]]:
        return [stored_of(host).store.syn for host in hosts]

    def are_equal(self, hosts: list[ClusterHost]) -> bool:
        if not all(host.is_up for host in hosts) or len(set(self._positions(hosts))) != 1:
            return False
        if len(set(self._digests(hosts))) != 1:
            return False
        logs = [stream_logs(host) for host in hosts]
        return logs.count(logs[0]) == len(logs)

    def _digests(self, hosts: list[ClusterHost]) -> list[str]:
        found: list[str] = []
        for host in hosts:
            replica = stored_of(host).replica
            assert replica is not None, "a member has a replica"
            definitions = hashlib.sha256(definitions_of(host.node).encode()).hexdigest()
            found.append(f"{replica.held_messages().digest()[:8]}/{definitions[:8]}")
        return found

    def differences(self, hosts: list[ClusterHost]) -> list[str]:
        if not all(host.is_up for host in hosts):
            return ["a server is not up in the end"]
        states = zip(hosts, self._positions(hosts), self._digests(hosts), strict=True)
        return [
            "the replicas are not equal in the end: "
            + ", ".join([f"{host.name} at {at} {digest}" for host, at, digest in states])
        ]


def stream_logs(host: ClusterHost) -> dict[str, bytes]:
    """The octets of all messages in the files of streams."""
    found: dict[str, bytes] = {}
    for name in host.disk.names():
        if name.startswith(f"{ROOT}/") and name.endswith(".log"):
            file = host.disk.open(name)
            found[name] = file.read(0, file.size())
    return found


def _order_of(host: ClusterHost) -> tuple[int, int]:
    return host.record.order()
