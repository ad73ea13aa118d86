"""The cluster that this server is a member of: /api/cluster and what lies below it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.cluster.member import check_name, parse_address
from penstock.node.cluster_changes import ChangeState, ChangeVerb, ClusterChange
from penstock.server.http.api.changes import actor_of
from penstock.server.http.api.operation import ADMINISTRATOR, ANYBODY, MANAGEMENT, Operation
from penstock.server.http.api.schema import (
    BOOLEAN,
    COUNT,
    INTEGER,
    TEXT,
    Schema,
    list_of,
    object_of,
    one_of,
    text_of,
)
from penstock.server.http.login import peer_of
from penstock.server.http.problems import JsonAnswer, Problem

if TYPE_CHECKING:
    from penstock.broker.access.actor import Actor
    from penstock.node.cluster_member import ClusterMember
    from penstock.node.cluster_status import ClusterStatus
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Doorkeeper

# A command waits so long for its record; then the answer is 202, and it goes on.
WAIT_SECONDS: Final = 10.0
# How often it looks: a record takes a few milliseconds.
LOOK_SECONDS: Final = 0.05

_MEMBER: Final = object_of(
    {
        "name": TEXT,
        "address": TEXT,
        "role": TEXT,
        "in_sync": BOOLEAN,
        "lag_operations": INTEGER,
        "lag_bytes": INTEGER,
        "connected": BOOLEAN,
        "may_be_root": BOOLEAN,
    }
)
_CHANGE: Final = object_of(
    {
        "command": TEXT,
        "name": TEXT,
        "state": one_of(*(state.value for state in ChangeState)),
        "text": TEXT,
    }
)
_STATUS: Final = object_of(
    {
        "name": TEXT,
        "epoch": COUNT,
        "role": TEXT,
        "root": TEXT,
        "members": list_of(_MEMBER),
        "committed": INTEGER,
        "lease_ms": COUNT,
        "expected_root": TEXT,
        "votes": list_of(COUNT),
        "root_address": TEXT,
        "cluster_id": TEXT,
        "reason": TEXT,
        "role_since_ms": COUNT,
        "role_changes": COUNT,
        "fetched_bytes": COUNT,
    },
    {"change": _CHANGE, "addition": _CHANGE},
)
_MEMBER_PATH: Final = "/api/cluster/members/{name}"


class ClusterPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine, door: Doorkeeper) -> None:
        self._line = line
        self._door = door
        # The last command that began here; on the broker's loop.
        self._change: ClusterChange | None = None
        # The last addition, which other commands may overtake.
        self._addition: ClusterChange | None = None

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/cluster",
                self.show,
                "The cluster as this server sees it. From the broker's own machine no login is "
                "needed.",
                "cluster",
                allowed=ANYBODY,
                answer=_STATUS,
                is_public=True,
            ),
            self._command(
                "PUT",
                _MEMBER_PATH,
                self.add,
                "Add a server that was formatted; it catches up first",
                object_of({"address": TEXT}),
            ),
            self._command("DELETE", _MEMBER_PATH, self.remove, "Remove a server"),
            self._command(
                "POST",
                f"{_MEMBER_PATH}/replace",
                self.replace,
                "The server of this name has a new data directory, because it lost its old one",
            ),
            self._command(
                "PUT",
                f"{_MEMBER_PATH}/root",
                self.root_role,
                "Enable or disable the root role of a server",
                object_of({"enabled": BOOLEAN}),
            ),
            self._command(
                "POST",
                "/api/cluster/hand-over",
                self.hand_over,
                "Let another server become the root: the one named, or the most senior that can",
                object_of({}, {"name": TEXT}),
            ),
            self._command(
                "POST",
                "/api/cluster/force-root",
                self.force_root,
                "A majority of the servers is lost for ever: go on with what this server has, as "
                "the only member of a new cluster. Confirmed messages may be lost.",
                object_of({"accept_loss": BOOLEAN}),
            ),
        ]

    def _command(
        self, method: str, path: str, page: object, summary: str, body: Schema | None = None
    ) -> Operation:
        return Operation(
            method,
            path,
            page,  # type: ignore[arg-type]
            f"{summary}. Answered when the members have accepted it, or with 202.",
            "cluster",
            allowed=ADMINISTRATOR,
            body=body,
            is_body_optional=True,
            answer=_CHANGE,
            answers=True,
            statuses=(202, 409),
        )

    async def show(self, call: ApiRequest) -> object:
        if not peer_of(call.request)[1]:
            caller = await self._door.let_in(call.request)
            caller.need_one_of(MANAGEMENT)
        return await self._line.ask(self._row)

    def _row(self, node: Node, now: int) -> dict[str, object]:
        member = member_of(node)
        row = _status_row(member.status(now), member, now)
        if self._change is not None:
            row["change"] = _change_row(self._change, now)
        if self._addition is not None:
            row["addition"] = _change_row(self._addition, now)
        return row

    async def add(self, call: ApiRequest) -> object:
        name, address = call.named("name"), text_of(call.body, "address")
        reason = check_name(name)
        if reason:
            raise Problem(400, reason)
        try:
            parse_address(address)
        except ValueError as error:
            raise Problem(400, str(error)) from error
        return await self._done(call, ChangeVerb.ADD, name, address)

    async def remove(self, call: ApiRequest) -> object:
        return await self._done(call, ChangeVerb.REMOVE, call.named("name"))

    async def replace(self, call: ApiRequest) -> object:
        return await self._done(call, ChangeVerb.REPLACE, call.named("name"))

    async def root_role(self, call: ApiRequest) -> object:
        is_enabled = call.body.get("enabled") is True
        verb = ChangeVerb.ENABLE_ROOT if is_enabled else ChangeVerb.DISABLE_ROOT
        return await self._done(call, verb, call.named("name"))

    async def hand_over(self, call: ApiRequest) -> object:
        return await self._done(call, ChangeVerb.HAND_OVER, text_of(call.body, "name"))

    async def force_root(self, call: ApiRequest) -> object:
        if call.body.get("accept_loss") is not True:
            raise Problem(
                400,
                "'accept_loss' must be true: messages that were confirmed may be lost",
                "Use this only when a majority of the servers has lost its data for ever.",
            )
        return await self._done(call, ChangeVerb.FORCE_ROOT, "")

    async def _done(
        self, call: ApiRequest, verb: ChangeVerb, name: str, address: str = ""
    ) -> object:
        actor = actor_of(call)
        change = await self._line.ask(
            lambda node, now: self._begin(node, verb, name, address, actor, now)
        )
        self._line.tell(self._line.server.schedule_flush)
        loop = asyncio.get_running_loop()
        until = loop.time() + WAIT_SECONDS
        while True:
            row = await self._line.ask(lambda node, now: _change_row(change, now))
            if row["state"] == ChangeState.DONE.value:
                return row
            if row["state"] == ChangeState.FAILED.value:
                raise Problem(409, str(row["text"]), facts={"change": row})
            if loop.time() >= until:
                return JsonAnswer(row, 202)
            await asyncio.sleep(LOOK_SECONDS)

    def _begin(
        self, node: Node, verb: ChangeVerb, name: str, address: str, actor: Actor, now: int
    ) -> ClusterChange:
        member = member_of(node)
        change = ClusterChange(member, verb, name, address)
        reason = change.begin(now)
        if reason:
            root = member.root_address(now)
            where = f"The root is at {root}." if root else ""
            raise Problem(409, reason, where, facts={"root_address": root} if root else None)
        self._change = change
        if verb is ChangeVerb.ADD:
            self._addition = change
        facts: dict[str, object] = {
            "change": verb.value,
            "server": change.name,
            "address": address,
            "by": actor.user,
            "door": actor.door,
        }
        party = Party(peer_host=actor.peer_host, peer_port=actor.peer_port)
        node.container.events.record(
            Event(EventKind.CLUSTER_CHANGED, Severity.INFO, party, "", facts, is_audit=True)
        )
        return change


def member_of(node: Node) -> ClusterMember:
    if node.member is None:
        raise Problem(404, "this server is not a member of a cluster", "See docs/CLUSTER.md.")
    return node.member


def _change_row(change: ClusterChange, now: int) -> dict[str, object]:
    progress = change.look(now)
    return {
        "command": change.verb.value,
        "name": change.name,
        "state": progress.state.value,
        "text": progress.text,
    }


def _status_row(status: ClusterStatus, member: ClusterMember, now: int) -> dict[str, object]:
    return {
        "name": status.name,
        "epoch": status.epoch,
        "role": status.role,
        "root": status.root,
        "members": [
            {
                "name": one.name,
                "address": one.address,
                "role": one.role,
                "in_sync": one.in_sync,
                "lag_operations": one.lag_operations,
                "lag_bytes": one.lag_bytes,
                "connected": one.is_connected,
                "may_be_root": one.may_be_root,
            }
            for one in status.members
        ],
        "committed": status.committed,
        "lease_ms": status.lease_ms,
        "expected_root": status.expected_root,
        "votes": list(status.votes),
        "root_address": status.root_address,
        "cluster_id": status.cluster_id,
        "reason": status.reason,
        "role_since_ms": max(now - status.since, 0),
        "role_changes": member.role_changes,
        "fetched_bytes": status.fetched_bytes,
    }
