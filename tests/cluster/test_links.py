"""Links between servers of a simulated network: who is let in, who is refused and told why."""

from dataclasses import replace

import pytest

from penstock.broker.events import EventKind
from penstock.cluster.links import FRAME_BYTES_MAX, LinkSettings
from penstock.cluster.peer_identity import CLOCKS_APART_MS_MAX
from penstock.dialects.encryption import Encryption
from penstock.dialects.peer import Peer
from penstock.dialects.peers import PEER_CONNECTIONS_MAX, TOO_MANY_PEERS
from penstock.formats.peer_limits import CONTROL_BYTES_MAX
from penstock.wire.outgoing import Outgoing
from tests.cluster.linked_hosts import SPOILED, LinkedHost, LinkedHosts
from tests.dialects.amqp10.doubles import KeptTransport

CONTROL = 20
STREAM = 5


def pair() -> tuple[LinkedHosts, LinkedHost, LinkedHost]:
    world = LinkedHosts()
    a, b = world.add("a"), world.add("b")
    a.knows("a", "b")
    b.knows("a", "b")
    world.run()
    return world, a, b


@pytest.mark.parametrize("seed", range(5))
def test_every_server_has_a_link_to_every_other_one(seed: int) -> None:
    world = LinkedHosts(seed)
    servers = world.trio()
    world.run()
    for server in servers:
        others = {"a", "b", "c"} - {server.name}
        assert set(server.links.connected()) == others
        assert sorted(server.heard.named("link_up")) == [(name,) for name in sorted(others)]
        assert set(server.heard.lines) == others


def test_servers_have_their_places_when_clients_have_taken_all() -> None:
    world = LinkedHosts()
    servers = world.trio()
    node = servers[0].host.node
    node.configuration = replace(node.configuration, connections_max=2)
    now = servers[0].host.now()
    idle = [node.connected(KeptTransport(), "127.0.0.1", True, now) for _ in range(2)]
    # More than fit: they come again and again, and say nothing.
    surplus = [KeptTransport() for _ in range(2 * PEER_CONNECTIONS_MAX)]
    for transport in surplus:
        assert node.connected(transport, "127.0.0.1", True, now) is not None
    assert [transport.is_closed for transport in surplus].count(False) == PEER_CONNECTIONS_MAX
    world.run()
    assert set(servers[0].links.connected()) == set(servers[0].heard.lines) == {"b", "c"}
    assert node.container.peer_count == 2
    assert node.is_full() and all(idle)


def test_the_places_of_servers_are_limited_and_freed() -> None:
    world, a, b = pair()
    container = a.host.node.container
    assert container.peer_count == 1
    b.knows("b")
    world.run(20)
    assert container.peer_count == 0
    container.peer_count = PEER_CONNECTIONS_MAX
    b.knows("a", "b")
    world.run(5)
    assert any(TOO_MANY_PEERS in reason for reason in a.reasons())


def test_control_messages_travel_on_the_link_of_their_sender_and_the_stream_on_the_other() -> None:
    world, a, b = pair()
    a.links.send("b", CONTROL, b"vote")
    b.heard.lines["a"].send(STREAM, [b"oper", b"", b"ation"])
    world.run(1)
    assert b.heard.named("received") == [("a", a.store_id, CONTROL, b"vote")]
    assert a.heard.named("received") == [("b", b.store_id, STREAM, b"operation")]


def test_messages_of_all_sizes_arrive_whole_and_in_order() -> None:
    world, a, b = pair()
    bodies = [bytes([size % 251]) * size for size in (0, 1, 70_000, 3_000_000, 5, 1_048_576)]
    for body in bodies:
        pieces = [body[start : start + 99_999] for start in range(0, len(body), 99_999)]
        b.heard.lines["a"].send(STREAM, pieces)
    world.run(600)
    assert a.heard.bodies("b") == bodies
    assert b.heard.lines["a"].unsent_bytes() == 0


REFUSALS: dict[str, tuple[dict[str, object], str]] = {
    "another key": ({"key": b"another"}, "does not have the key of this cluster"),
    "another version": ({"protocol": 99}, "version 99 of the cluster protocol"),
    "another cluster": ({"cluster_id": "cluster-2"}, "belongs to cluster"),
    "another configuration": ({"digest": "other"}, "the configuration of"),
    "a clock that is fast": ({"wall_ahead_ms": CLOCKS_APART_MS_MAX + 2_000}, "ms apart"),
    "a clock that is slow": ({"wall_ahead_ms": -CLOCKS_APART_MS_MAX - 2_000}, "ms apart"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_mismatch_is_refused_with_the_reason_at_both_ends(case: str) -> None:
    world = LinkedHosts()
    settings, reason = REFUSALS[case]
    a, b, c = world.add("a"), world.add("b", **settings), world.add("c")
    for server in (a, b, c):
        server.knows("a", "b", "c")
    world.run(5)
    assert b.links.connected() == []
    assert a.links.connected() == ["c"] and c.links.connected() == ["a"], "the others go on"
    for server in (a, b):
        assert any(reason in text for text in server.reasons()), server.reasons()
    assert not b.heard.lines and "b" not in a.heard.lines


def test_a_name_that_is_not_a_member_is_refused() -> None:
    world = LinkedHosts()
    a, x = world.add("a"), world.add("x")
    a.knows("a", "b")
    x.knows("a", "x")
    world.run()
    assert x.links.connected() == [] and not a.heard.lines
    for server in (a, x):
        assert any("'x' is not a member of this cluster" in text for text in server.reasons())


def test_a_link_to_itself_is_refused() -> None:
    world = LinkedHosts()
    a = world.add("a")
    a.knows("a", b="a:5672")
    world.run()
    assert not a.heard.calls
    assert any("'a' has connected to itself" in text for text in a.reasons())


def test_two_servers_with_one_name_refuse_one_another() -> None:
    world = LinkedHosts()
    first = world.add("a")
    second = world.add("a", "second", listens_as="b", store_id=b"another".ljust(16))
    first.knows("a", b="b:5672")
    second.knows("a", b="a:5672")
    world.run()
    assert not first.heard.calls and not second.heard.calls
    assert any("two servers are named 'a'" in text for text in first.reasons())
    assert any("two servers are named 'a'" in text for text in second.reasons())


def test_a_second_server_with_the_name_of_a_connected_peer_is_refused() -> None:
    world, a, b = pair()
    rogue = world.add("b", "rogue", listens_as="rogue", store_id=b"another".ljust(16))
    rogue.knows("a", "b")
    world.run(5)
    assert rogue.links.connected() == []
    assert any("two servers are named 'b'" in text for text in rogue.reasons())
    assert any("two servers are named 'b'" in text for text in a.reasons())
    assert a.links.connected() == ["b"] and b.links.connected() == ["a"]
    assert a.heard.named("backup_line_lost") == []


def test_another_server_at_the_address_of_a_member_is_refused() -> None:
    world = LinkedHosts()
    a, b, c = world.trio()
    a.knows("a", "b", c="b:5672")
    world.run()
    assert a.links.connected() == ["b"]
    assert any("expects 'c' at this address" in text for text in a.reasons())
    assert a.heard.lines.keys() == {"b", "c"}, "c has dialled"
    assert c.links.connected() == ["a", "b"] and b.links.connected() == ["a", "c"]


def test_a_lost_line_is_told_once_at_each_end_and_dialled_again() -> None:
    world, a, b = pair()
    for line in world.network.lines():
        line.reset()
    world.run(5)
    for server, other in ((a, "b"), (b, "a")):
        assert server.heard.named("link_down") == [(other,)]
        assert server.heard.named("backup_line_lost") == [(other,)]
        assert server.links.connected() == [other] and set(server.heard.lines) == {other}


def test_a_newer_link_of_the_same_server_replaces_the_older_one() -> None:
    """The old machine's connection is cut: only the new one can tell."""
    world, a, b = pair()
    for line in world.network.lines():
        line.cut(from_near=True, from_far=True)
    b.host.is_up = False
    again = world.add("b", "again", store_id=b.store_id)
    again.knows("a", "b")
    world.run(1)
    assert again.links.connected() == ["a"]
    assert [call for call in a.heard.calls if call[0].startswith("backup")] == [  # type: ignore[attr-defined]
        ("backup_line", "b"),
        ("backup_line_lost", "b"),
        ("backup_line", "b"),
    ]
    # The cut ends notice late, and must not end the new link.
    world.run(30)
    assert a.heard.named("backup_line_lost") == [("b",)]
    a.heard.lines["b"].send(STREAM, [b"to the new one"])
    world.run(1)
    assert again.heard.bodies("a") == [b"to the new one"]
    assert b.heard.bodies("a") == []


def test_two_servers_with_a_copied_data_directory_do_not_dial_in_a_tight_loop() -> None:
    world, a, b = pair()
    twin = world.add("b", "twin", store_id=b.store_id)
    twin.knows("a", "b")
    world.run(30)
    assert 2 < len(a.heard.named("backup_line")) < 60
    assert len(a.heard.named("backup_line")) - len(a.heard.named("backup_line_lost")) <= 1


def test_a_line_that_is_ended_passes_nothing_on_and_is_told_with_the_next_tick() -> None:
    world, a, b = pair()
    b.links.send("a", CONTROL, b"before")
    world.run(1)
    line = a.heard.lines["b"]
    b.links.send("a", CONTROL, b"under way")
    line.end("a test")
    assert a.heard.named("backup_line_lost") == [], "not in the middle of the call"
    line.send(STREAM, [b"too late"])
    line.end("again")
    world.run(0.2)
    assert a.heard.bodies("b") == [b"before"]
    assert a.heard.named("backup_line_lost") == [("b",)]
    world.run(3)
    assert b.links.connected() == ["a"], "it has dialled again"
    assert any("a test" in text for text in b.reasons())
    assert b.heard.bodies("a") == []


def test_a_message_that_the_listener_refuses_closes_the_link_with_the_reason() -> None:
    world, a, b = pair()
    b.links.send("a", CONTROL, SPOILED)
    world.run(3)
    for server in (a, b):
        assert any("it is spoiled" in text for text in server.reasons())
    assert a.heard.named("backup_line_lost") == [("b",)]
    assert b.links.connected() == ["a"]


def test_a_control_message_above_its_limit_closes_the_link() -> None:
    world, a, b = pair()
    b.links.send("a", CONTROL, bytes(CONTROL_BYTES_MAX + 1))
    world.run(60)
    assert any("control message of" in text for text in b.reasons())
    assert a.heard.bodies("b") == []


def test_a_link_on_which_too_much_waits_is_closed_and_dialled_again() -> None:
    world = LinkedHosts()
    settings = LinkSettings(unsent_bytes_max=1_000_000)
    a, b = world.add("a", settings=settings), world.add("b", settings=settings)
    for server in (a, b):
        server.knows("a", "b")
    world.run()
    line = a.heard.lines["b"]
    line.send(STREAM, [bytes(FRAME_BYTES_MAX * 3)])
    assert line.unsent_bytes() >= FRAME_BYTES_MAX * 3, "sent as the link drains"
    line.send(STREAM, [bytes(900_000)])
    world.run(0.01)
    assert a.heard.named("backup_line_lost") == []
    line.send(STREAM, [bytes(200_000)])
    world.run(5)
    assert a.heard.named("backup_line_lost") == [("b",)]
    assert any("does not keep up" in text for text in b.reasons())
    assert b.links.connected() == ["a"]


def test_links_to_a_removed_member_end_and_a_member_with_a_new_address_is_dialled_there() -> None:
    world = LinkedHosts()
    a, b, _ = world.trio()
    world.run()
    a.knows("a", "c")
    world.run(3)
    assert a.links.connected() == ["c"] and set(a.heard.lines) == {"c"}
    assert b.links.connected() == ["c"]
    assert any("is not a member of this cluster" in text for text in b.reasons())
    a.knows("a", "c", b="b:5672")
    world.run(5)
    assert set(a.links.connected()) == {"b", "c"} and set(b.links.connected()) == {"a", "c"}


def test_a_silent_link_is_ended_by_missed_heartbeats() -> None:
    world, a, b = pair()
    for line in world.network.lines():
        line.cut(from_near=True, from_far=True)
    world.run(9)
    assert a.heard.named("link_down") == [("b",)] and b.heard.named("link_down") == [("a",)]
    world.run(5)
    assert a.links.connected() == ["b"] and b.links.connected() == ["a"]


def test_an_idle_link_lives_by_its_heartbeats() -> None:
    world, a, b = pair()
    world.run(60)
    for server in (a, b):
        assert server.heard.named("link_down") == [] == server.heard.named("backup_line_lost")


def test_attempts_become_rarer_and_the_same_reason_is_a_warning_once() -> None:
    world = LinkedHosts()
    a = world.add("a")
    a.knows("a", "b")
    world.run(20)
    closed = [event for event in a.events.events if event.kind is EventKind.PEER_LINK_CLOSED]
    assert 10 < len(closed) < 40
    assert [event.severity.value for event in closed[:2]] == ["warning", "debug"]
    b = world.add("b")
    b.knows("a", "b")
    world.run(5)
    assert a.links.connected() == ["b"]


def test_a_server_that_stops_closes_its_links_in_order() -> None:
    world, a, b = pair()
    a.links.stop(a.host.now())
    a.host.schedule_flush()
    world.run(5)
    assert b.heard.named("backup_line_lost") == [("a",)]
    assert a.links.connected() == []


def test_a_peer_on_another_machine_needs_tls() -> None:
    outgoing = Outgoing([], KeptTransport())
    for settings, is_loopback, encryption, is_refused in (
        (LinkSettings(), True, None, False),
        (LinkSettings(), False, None, True),
        (LinkSettings(), False, Encryption("TLSv1.3", "cipher", ""), False),
        (LinkSettings(allows_plain=True), False, None, False),
    ):
        peer = Peer(1, "192.0.2.1", 1, is_loopback, outgoing)
        peer.encryption = encryption
        door = LinkedHosts().add("a", settings=settings).links.door
        assert ("needs TLS" in door.why_refused(peer)) is is_refused
