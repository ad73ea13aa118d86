"""Whether the broker is alive and whether it serves. No login is needed.

`server.health` defines what healthy means. The verdict is read from what the broker's thread keeps
up to date, without waiting for that thread. So the answer takes as long with a broker that is busy,
or that hangs, as with an idle one. Light to import: the front door answers before the HTTP
libraries are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.server.server import Server

LIVE_PATH: Final = "/health/live"
READY_PATH: Final = "/health/ready"
ROOT_PATH: Final = "/health/root"
PATHS: Final = (LIVE_PATH, READY_PATH, ROOT_PATH)
# When to ask again after a 503.
RETRY_SECONDS: Final = 5


class HealthPages:
    """Held by the HTTP listener; asked on the HTTP server's threads."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def objection(self, path: str) -> str:
        """The reason for status 503 on this path; empty for 200."""
        reason = self._server.health.problem()
        if not reason and path != LIVE_PATH:
            reason = self._why_not_ready() or self._why_no_root(path == ROOT_PATH)
        return reason

    def why_not_root(self) -> str:
        """Why another server has to be asked; empty on the active root, and without a cluster."""
        return self._why_no_root(is_own=True)

    def why_no_streams(self) -> str:
        """Why streams cannot be read here; empty on the root, and on every server that has what was
        confirmed.
        """
        reason = self._why_no_root(is_own=False)
        member = self._server.node.member
        if reason or member is None or member.is_in_sync():
            return reason
        return "this server is not in the in-sync set of its cluster"

    def _why_no_root(self, is_own: bool) -> str:
        """Why the cluster's root does not serve, or is not this server; empty if it does, and without
        a cluster.
        """
        member = self._server.node.member
        if member is None:
            return ""
        now = self._server.now()
        if member.may_serve(now):
            return ""
        address = member.root_address(now)
        if not address:
            return "no active root of the cluster is known"
        return f"the root of the cluster is at {address}" if is_own else ""

    def _why_not_ready(self) -> str:
        """Why no connections are accepted; empty if they are. Publishers may be blocked all the
        same; metrics show it. Reads single values only: the node belongs to another thread.
        """
        node = self._server.node
        if node.storage_failure:
            return "the disk failed"
        if node.is_stopping:
            return "the broker is stopping"
        if node.is_full():
            return "the connection limit is reached"
        return ""


def answer_body(path: str, objection: str) -> dict[str, object]:
    if objection:
        return {"error": "service_unavailable", "reason": objection}
    return {"status": path.rpartition("/")[2]}
