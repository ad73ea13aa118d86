"""Brokers with a defect each, for proving that the checkers bite.

A defect sits where the host meets the node or the network: in what the node writes, in what it is
told, or in the hook that every publish passes. Nothing of the node itself is replaced.
"""

from penstock.broker.message import Message
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.connection import Connection
from penstock.formats.amqp091_frames import BODY_FRAME, FRAME_OVERHEAD, METHOD_FRAME
from penstock.simulation.endpoint import Endpoint
from penstock.simulation.host import Host
from penstock.wire.amqp091.methods_generated import BASIC_ACK, BASIC_DELIVER
from penstock.world.network import Transport

# Every so many of its kind meets the defect, so that most of a run goes well.
EVERY = 15


def frames_in(data: bytes) -> list[bytes]:
    """The whole frames that a node writes at the end of a tick."""
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        after = position + int.from_bytes(data[position + 3 : position + 7], "big") + FRAME_OVERHEAD
        frames.append(data[position:after])
        position = after
    return frames


def identity_of(frame: bytes) -> int:
    return int.from_bytes(frame[7:11], "big") if frame[0] == METHOD_FRAME else 0


class TamperingTransport(Transport):
    """Stands between a node and its endpoint; subclasses change what passes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._met = 0

    def write(self, data: bytes) -> None:
        if data[:4] == b"AMQP":
            self._endpoint.write(data)
            return
        self._endpoint.write(b"".join(self.tampered(frames_in(data))))

    def tampered(self, frames: list[bytes]) -> list[bytes]:
        raise NotImplementedError

    def is_met(self) -> bool:
        self._met += 1
        return self._met % EVERY == 0

    def close(self) -> None:
        self._endpoint.close()

    def abort(self) -> None:
        self._endpoint.abort()

    def pause_reading(self) -> None:
        self._endpoint.pause_reading()

    def resume_reading(self) -> None:
        self._endpoint.resume_reading()


class FlagForgettingTransport(TamperingTransport):
    def tampered(self, frames: list[bytes]) -> list[bytes]:
        changed: list[bytes] = []
        for frame in frames:
            if identity_of(frame) == BASIC_DELIVER:
                flag_at = 12 + frame[11] + 8
                changed.append(frame[:flag_at] + b"\x00" + frame[flag_at + 1 :])
            else:
                changed.append(frame)
        return changed


class ConfirmRepeatingTransport(TamperingTransport):
    def tampered(self, frames: list[bytes]) -> list[bytes]:
        changed: list[bytes] = []
        for frame in frames:
            changed.append(frame)
            if identity_of(frame) == BASIC_ACK and self.is_met():
                changed.append(frame)
        return changed


class ConfirmLosingTransport(TamperingTransport):
    def tampered(self, frames: list[bytes]) -> list[bytes]:
        return [frame for frame in frames if identity_of(frame) != BASIC_ACK or not self.is_met()]


class DeliveryLosingTransport(TamperingTransport):
    def tampered(self, frames: list[bytes]) -> list[bytes]:
        changed: list[bytes] = []
        is_losing = False
        for frame in frames:
            if frame[0] == METHOD_FRAME:
                is_losing = identity_of(frame) == BASIC_DELIVER and self.is_met()
            if not is_losing:
                changed.append(frame)
        return changed


class BodyChangingTransport(TamperingTransport):
    def tampered(self, frames: list[bytes]) -> list[bytes]:
        changed: list[bytes] = []
        for frame in frames:
            if frame[0] == BODY_FRAME and self.is_met():
                last = bytes([frame[-2] ^ 1])
                changed.append(frame[:-2] + last + frame[-1:])
            else:
                changed.append(frame)
        return changed


class FlagForgettingHost(Host):
    def transport(self, endpoint: Endpoint) -> Transport:
        return FlagForgettingTransport(endpoint)


class ConfirmRepeatingHost(Host):
    def transport(self, endpoint: Endpoint) -> Transport:
        return ConfirmRepeatingTransport(endpoint)


class ConfirmLosingHost(Host):
    def transport(self, endpoint: Endpoint) -> Transport:
        return ConfirmLosingTransport(endpoint)


class DeliveryLosingHost(Host):
    def transport(self, endpoint: Endpoint) -> Transport:
        return DeliveryLosingTransport(endpoint)


class BodyChangingHost(Host):
    def transport(self, endpoint: Endpoint) -> Transport:
        return BodyChangingTransport(endpoint)


class AlarmLosingHost(Host):
    """Frees memory the quick way."""

    def set_alarm(self, reason: str) -> None:
        super().set_alarm(reason)
        if reason:
            for queue in self.node.state.vhost("/").queues.values():
                queue.purge(self.clock.now())


class LossIgnoringHost(Host):
    """Never tells its node that a line is gone."""

    def lost(self, connection: Connection) -> None:
        self.schedule_flush()


class WakingHost(Host):
    """Closes a connection now and then, for no reason."""

    _received = 0

    def received(self, connection: Connection, data: bytes) -> None:
        super().received(connection, data)
        self._received += 1
        if self._received % (EVERY * 20) == 0:
            connection.stop("because", self.clock.now())


class InterceptingHost(Host):
    """Every publish passes an interceptor; subclasses say which."""

    def start(self) -> None:
        super().start()
        self.node.intercept_publishes(self.interceptor())

    def interceptor(self) -> PublishInterceptor:
        raise NotImplementedError


class RouteLosing(PublishInterceptor):
    """Confirms a message that it puts nowhere."""

    def __init__(self) -> None:
        self._met = 0

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        self._met += 1
        if self._met % EVERY == 0:
            queues.clear()
        return True


class Doubling(PublishInterceptor):
    """Puts a message into a queue twice."""

    def __init__(self) -> None:
        self._met = 0

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        self._met += 1
        if self._met % EVERY == 0:
            queues[0].enqueue(message, now)
        return True


class Overtaking(PublishInterceptor):
    """Lets a message wait until the one behind it has passed."""

    def __init__(self) -> None:
        self._waiting: Message | None = None
        self._queues: list[MessageQueue] = []

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        waiting = self._waiting
        if waiting is None:
            self._waiting = message
            self._queues = list(queues)
            message.hold()  # so that it is confirmed only once it is in its queues
            queues.clear()
            return True
        self._waiting = None
        for queue in queues:
            queue.enqueue(message, now)
        queues.clear()
        for queue in self._queues:
            queue.enqueue(waiting, now)
        waiting.release()
        return True


class RouteLosingHost(InterceptingHost):
    def interceptor(self) -> PublishInterceptor:
        return RouteLosing()


class DoublingHost(InterceptingHost):
    def interceptor(self) -> PublishInterceptor:
        return Doubling()


class OvertakingHost(InterceptingHost):
    def interceptor(self) -> PublishInterceptor:
        return Overtaking()
