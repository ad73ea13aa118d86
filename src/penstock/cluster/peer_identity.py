"""What two servers of a cluster tell one another when they connect, and why they may not.

Both sides send the same table, the one that has dialled first. Each checks the other's; the reason of
a refusal is the text of connection.close, and an event at both ends.

    name         of the server in the cluster (its SPID)
    wanted       the name that the dialling server expects at this address; empty in the answer
    address      where the server can be dialled
    store        the id of its data directory
    protocol     the version of what is said on the link
    cluster      the id of the cluster
    digest       of the configuration that must be the same on all servers
    wall         its wall clock, in milliseconds
"""

from typing import Final

from penstock.cluster.member import STORE_ID_BYTES

# Changed whenever servers of two versions would misunderstand one another.
PROTOCOL_VERSION: Final = 2
# Messages expire by the root's wall clock, so that they would expire early or late after a fail-over
# to a server whose clock is apart. A round trip and a busy server are part of the difference that is
# measured; a machine whose clock is synchronised stays far below this.
CLOCKS_APART_MS_MAX: Final = 30_000


class PeerIdentity:
    """One server of a cluster, as it presents itself to its peers."""

    def __init__(
        self,
        name: str,
        address: str,
        store_id: bytes,
        cluster_id: str,
        digest: str,
        protocol: int = PROTOCOL_VERSION,
    ) -> None:
        self.name: str = name
        self.address: str = address
        self.store_id: bytes = store_id
        self.cluster_id: str = cluster_id
        self.digest: str = digest
        self.protocol: int = protocol

    def table(self, wanted: str, wall: int) -> dict[str, object]:
        """What is sent; `wanted` is the name that is expected at the other end."""
        return {
            "name": self.name,
            "wanted": wanted,
            "address": self.address,
            "store": self.store_id,
            "protocol": self.protocol,
            "cluster": self.cluster_id,
            "digest": self.digest,
            "wall": wall,
        }


class Presented:
    """What the other end has sent. Parts that are missing or of the wrong type are empty, or -1."""

    def __init__(self, table: dict[str, object]) -> None:
        self.name: str = _text(table, "name")
        self.wanted: str = _text(table, "wanted")
        self.address: str = _text(table, "address")
        store = table.get("store")
        self.store_id: bytes = store if isinstance(store, bytes) else _text(table, "store").encode()
        self.protocol: int = _number(table, "protocol")
        self.cluster_id: str = _text(table, "cluster")
        self.digest: str = _text(table, "digest")
        self.wall: int = _number(table, "wall")


def why_refused(
    own: PeerIdentity, other: Presented, members: dict[str, str], expected: str, wall: int
) -> str:
    """Why these two may not have a link; empty if they may. `members` are the addresses of all
    servers of the cluster by their names. `expected` is the name that we have dialled, empty for a
    peer that has dialled us.
    """
    if other.protocol != own.protocol:
        return (
            f"the peer speaks version {other.protocol} of the cluster protocol and this server "
            f"version {own.protocol}; upgrade the older one"
        )
    if other.cluster_id != own.cluster_id:
        return f"the peer belongs to cluster '{other.cluster_id}', not to '{own.cluster_id}'"
    if other.name == own.name:
        if other.store_id == own.store_id:
            return (
                f"'{own.name}' has connected to itself; the address of another member leads "
                "to this server"
            )
        return f"two servers are named '{own.name}'; each member needs its own data directory"
    if other.name not in members:
        return f"'{other.name}' is not a member of this cluster; see: penstock cluster add"
    if expected and other.name != expected:
        return f"'{other.name}' answers at the address of member '{expected}'"
    if not expected and other.wanted != own.name:
        return f"this is '{own.name}', and the peer expects '{other.wanted}' at this address"
    if other.digest != own.digest:
        return (
            f"the configuration of '{other.name}' differs from that of '{own.name}' in a setting "
            "that must be the same on all servers of a cluster; compare timing_percent, pause_seconds "
            "and replicate in [cluster]"
        )
    apart = abs(other.wall - wall)
    if apart > CLOCKS_APART_MS_MAX:
        return (
            f"the clocks of '{other.name}' and '{own.name}' are {apart} ms apart, more than "
            f"{CLOCKS_APART_MS_MAX} ms; synchronise them"
        )
    if len(other.store_id) != STORE_ID_BYTES:
        return f"'{other.name}' has not said the id of its data directory, which has {STORE_ID_BYTES} octets"
    return ""


def _text(table: dict[str, object], name: str) -> str:
    value = table.get(name)
    return value if isinstance(value, str) else ""


def _number(table: dict[str, object], name: str) -> int:
    value = table.get(name)
    return value if isinstance(value, int) else -1
