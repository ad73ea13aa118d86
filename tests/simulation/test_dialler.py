"""Hosts that dial one another by name."""

from __future__ import annotations

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dialler import HostDialler
from penstock.simulation.history import History
from penstock.simulation.host import Host
from penstock.simulation.network import Network
from penstock.wire.amqp091.limits import Limits
from penstock.world.network import DialAddress, DialListener, Transport
from tests.simulation.doubles import RecordingListener, dice_of

SECOND = 1_000_000


class NotedDial(DialListener):
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.transport: Transport | None = None

    def connected(self, transport: Transport, now: int) -> None:
        self.heard.append("connected")
        self.transport = transport

    def received(self, data: bytes, now: int) -> None:
        self.heard.append(data.decode())

    def writable(self, is_writable: bool, now: int) -> None:
        self.heard.append(f"writable {is_writable}")

    def lost(self, reason: str, now: int) -> None:
        self.heard.append(f"lost {reason}".strip())


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        history = History(self.clock)
        self.network = Network(self.clock, dice_of(1), history)
        self.host = Host("near", self.clock, dice_of(2), history, Limits())
        self.far = RecordingListener()
        self.network.listen("far", self.far)
        self.dialler = HostDialler(self.host, self.network)
        self.noted = NotedDial()

    def dial(self, name: str) -> list[str]:
        self.dialler.dial(DialAddress(name, 5672), self.noted)
        assert self.noted.heard == [], "never from within the call"
        self.clock.run(SECOND)
        return self.noted.heard


def test_a_host_dials_another_by_its_name_and_both_speak() -> None:
    scene = Scene()
    assert scene.dial("far") == ["connected"]
    assert scene.noted.transport is not None
    scene.noted.transport.write(b"hello")
    assert scene.far.endpoint is not None
    scene.far.endpoint.write(b"you")
    scene.clock.run(SECOND)
    assert scene.far.user.data == b"hello"
    assert "".join(scene.noted.heard[1:]) == "you"
    scene.far.endpoint.close()
    scene.clock.run(SECOND)
    assert scene.noted.heard[-1] == "lost"


def test_a_name_that_nobody_has_is_refused() -> None:
    assert Scene().dial("nowhere") == ["lost cannot connect to nowhere:5672: refused"]


def test_a_process_that_has_died_hears_nothing_of_what_it_dialled() -> None:
    scene = Scene()
    scene.dialler.dial(DialAddress("far", 1), scene.noted)
    scene.host.is_up = False
    scene.clock.run(SECOND)
    assert scene.noted.heard == []
    assert scene.far.user.lost_count == 1


def test_back_pressure_is_told() -> None:
    scene = Scene()
    scene.dial("far")
    assert scene.noted.transport is not None and scene.far.endpoint is not None
    scene.far.endpoint.pause_reading()
    scene.noted.transport.write(bytes(100_000))
    scene.clock.run(SECOND)
    scene.far.endpoint.resume_reading()
    scene.clock.run(20 * SECOND)
    assert scene.noted.heard == ["connected", "writable False", "writable True"]
    assert len(scene.far.user.data) == 100_000
