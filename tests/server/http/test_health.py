"""Whoever watches over processes asks without a login."""

from pathlib import Path

from penstock import Broker
from tests.server.http.asking import Pages, problem, serving


def test_a_broker_that_runs_is_live_and_ready_for_everybody(broker: Broker) -> None:
    stranger = Pages(broker, None)
    assert stranger.facts("/health/live") == {"status": "live"}
    assert stranger.facts("/health/ready") == {"status": "ready"}


def test_a_broker_whose_connections_are_all_taken_is_live_but_not_ready() -> None:
    with serving(connections_max=0) as broker:
        stranger = Pages(broker, None)
        assert stranger.get("/health/live").status_code == 200
        body = problem(stranger.get("/health/ready"), 503)
        assert body["reason"] == "the connection limit is reached"


def test_a_blocked_publisher_does_not_make_it_unready(broker: Broker) -> None:
    broker.block_publishers()
    assert Pages(broker, None).get("/health/ready").status_code == 200


def test_a_broker_without_http_has_no_port_for_it(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data") as broker:
        assert broker.http_port == 0
