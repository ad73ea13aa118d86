"""Connections, channels and consumers as the API shows them."""

import socket
import time

from proton import Message
from proton.utils import BlockingConnection
from websockets.sync.client import connect

from penstock import Broker
from tests.server.http.api.lists import Scene, mandatory, quoted, row, rows
from tests.server.http.asking import Pages, problem
from tests.server.http.doubles import AMQP, WebSocketClient


def test_a_connection_is_named_by_its_two_ends(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    (only,) = rows(pages, "/api/connections")
    expected = f"127.0.0.1:{only['peer_port']} -> 127.0.0.1:{broker.port}"
    assert only["name"] == expected
    assert row(pages, f"/api/connections/{quoted(scene.name)}")["name"] == expected


def test_a_connection_shows_its_client_its_user_and_what_it_carried(
    broker: Broker, pages: Pages
) -> None:
    Scene(broker)
    (only,) = rows(pages, "/api/connections")
    assert only["protocol"] == "AMQP 0-9-1"
    assert (only["user"], only["vhost"], only["state"]) == ("guest", "/", "running")
    assert (only["channels"], only["auth_mechanism"], only["ssl"]) == (2, "PLAIN", False)
    assert only["client_properties"]["product"] == "Pika Python Client Library"
    assert only["recv_oct"] > 100 and only["send_oct"] > 100
    assert only["recv_cnt"] > 0 and only["send_cnt"] > 0
    assert abs(only["connected_at"] - time.time() * 1000) < 600_000
    assert only["recv_oct_details"]["rate"] >= 0.0


def test_connections_are_listed_by_virtual_host_and_by_user(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    broker.add_vhost("empty")
    assert len(rows(pages, "/api/vhosts/%2F/connections")) == 1
    assert rows(pages, "/api/vhosts/empty/connections") == []
    assert rows(pages, "/api/connections/username/guest") == [
        {
            "name": scene.name,
            "node": row(pages, "/api/overview")["node"],
            "user": "guest",
            "vhost": "/",
        }
    ]
    assert rows(pages, "/api/connections/username/nobody") == []
    problem(pages.get("/api/vhosts/unknown/connections"), 404)


def test_what_is_not_there_is_not_found(pages: Pages) -> None:
    problem(pages.get("/api/connections/nope"), 404)
    problem(pages.get("/api/connections/nope/channels"), 404)
    problem(pages.get("/api/channels/nope"), 404)


def test_channels_show_what_they_have_published_and_delivered(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    mandatory(scene.publisher)
    publishing, consuming = sorted(rows(pages, "/api/channels"), key=lambda one: one["number"])
    assert publishing["name"] == f"{scene.name} (1)"
    assert publishing["confirm"] and not consuming["confirm"]
    stats = publishing["message_stats"]
    assert (stats["publish"], stats["confirm"], stats["return_unroutable"]) == (6, 6, 1)
    assert (consuming["prefetch_count"], consuming["consumer_count"]) == (2, 1)
    assert consuming["messages_unacknowledged"] == 2
    assert consuming["message_stats"]["deliver_get"] == 2
    # It has no confirms, so nobody counts what it publishes.
    assert "publish" not in consuming["message_stats"]


def test_the_channels_of_a_connection_and_of_a_virtual_host(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    assert len(rows(pages, f"/api/connections/{quoted(scene.name)}/channels")) == 2
    assert len(rows(pages, "/api/vhosts/%2F/channels")) == 2


def test_one_channel_shows_its_consumers(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    shown = row(pages, f"/api/channels/{quoted(scene.name + ' (2)')}")
    (consumer,) = shown["consumer_details"]
    assert consumer["consumer_tag"] == "tag"
    assert row(pages, f"/api/channels/{quoted(scene.name + ' (1)')}")["consumer_details"] == []


def test_a_consumer_shows_its_queue_and_its_channel(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    (only,) = rows(pages, "/api/consumers")
    assert rows(pages, "/api/consumers/%2F") == [only]
    assert only["queue"] == {"name": "q", "vhost": "/"}
    assert (only["consumer_tag"], only["prefetch_count"], only["ack_required"]) == ("tag", 2, True)
    assert only["arguments"] == {"x-priority": 2}
    assert only["channel_details"]["name"] == f"{scene.name} (2)"
    assert only["channel_details"]["connection_name"] == scene.name


def test_a_connection_of_amqp_10_has_sessions_and_receivers(broker: Broker, pages: Pages) -> None:
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{broker.port}", user="guest", password="guest"
    )
    try:
        sender = connection.create_sender("work")
        for number in range(3):
            sender.send(Message(body=str(number)))
        connection.create_receiver("work", credit=2)
        (only,) = rows(pages, "/api/connections")
        assert (only["protocol"], only["state"], only["user"]) == ("AMQP 1.0", "running", "guest")
        assert only["channels"] == 1
        (session,) = rows(pages, "/api/channels")
        assert session["message_stats"]["publish"] == 3
        assert session["message_stats"]["deliver_get"] == 2
        (consumer,) = rows(pages, "/api/consumers")
        assert consumer["queue"]["name"] == "work"
    finally:
        connection.close()


def test_a_connection_that_has_not_logged_in_is_not_listed(broker: Broker, pages: Pages) -> None:
    with socket.create_connection(("127.0.0.1", broker.port)) as raw:
        raw.sendall(b"AMQP\x00\x00\x09\x01")
        assert raw.recv(10)
        assert rows(pages, "/api/connections") == []


def test_a_connection_over_websocket_is_named_by_its_two_ends(broker: Broker, pages: Pages) -> None:
    url = f"ws://127.0.0.1:{broker.http_port}/ws"
    with connect(url, subprotocols=AMQP, compression=None) as line:
        WebSocketClient(line)
        (only,) = rows(pages, "/api/connections")
        assert only["name"].endswith(f" -> 127.0.0.1:{broker.http_port}")
