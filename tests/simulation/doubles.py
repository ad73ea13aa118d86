"""What tests of the simulated world put at its ends."""

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import Endpoint, StreamUser
from penstock.simulation.history import History
from penstock.simulation.network import Line, Listener, Network
from penstock.simulation.run import make_source
from penstock.world.disk import FlushListener


def dice_of(seed: int) -> Dice:
    return Dice(make_source, str(seed))


class RecordingUser(StreamUser):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.data = b""
        self.reads: list[int] = []
        self.lost_count = 0
        self.writable: list[bool] = []

    def received(self, data: bytes) -> None:
        assert not self.lost_count, "nothing comes after the end"
        self.data += data
        self.reads.append(len(data))

    def lost(self) -> None:
        self.lost_count += 1

    def writable_changed(self, writable: bool) -> None:
        self.writable.append(writable)


class RecordingListener(Listener):
    """Accepts one line."""

    def __init__(self) -> None:
        self.user = RecordingUser()
        self.endpoint: Endpoint | None = None

    def accept(self, endpoint: Endpoint, peer_host: str) -> StreamUser | None:
        self.endpoint = endpoint
        return self.user


class RecordingFlushListener(FlushListener):
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.failures: list[str] = []

    def flushed(self, token: int, now: int) -> None:
        self.tokens.append(token)

    def flush_failed(self, reason: str, now: int) -> None:
        self.failures.append(reason)


class Pair:
    """Two users with a line between them."""

    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock()
        self.history = History(self.clock)
        self.network = Network(self.clock, dice_of(seed), self.history)
        listener = RecordingListener()
        self.network.listen("far", listener)
        self.near_user = RecordingUser()
        self.far_user = listener.user
        answers: list[Endpoint | None] = []
        self.network.dial("far", "near", answers.append)
        self.clock.run(1_000_000)
        near = answers[0]
        assert near is not None and listener.endpoint is not None
        near.user = self.near_user
        self.near: Endpoint = near
        self.far: Endpoint = listener.endpoint
        self.line: Line = self.network.lines()[0]
