"""What a server of a cluster writes to its clients: only a root with a valid lease delivers and
confirms (R14, R16). Looked at where octets leave the process, because what is prepared may be dropped.
"""

from typing import Final

from penstock.cluster.messages import NACK
from penstock.simulation.endpoint import Endpoint
from penstock.world.network import Transport

_HEADER: Final = b"AMQP"
_METHOD_FRAME: Final = 1
# A frame's type, channel and size, and the octet at its end.
_FRAME_OVERHEAD: Final = 8
# basic.deliver, basic.get-ok, basic.ack (a confirm), tx.commit-ok: class and method.
_PROMISES: Final = (60 << 16 | 60, 60 << 16 | 71, 60 << 16 | 80, 90 << 16 | 21)

# The same of AMQP 1.0: a frame's size, header and type, then the performative; transfer, disposition.
_AMQP10_HEAD: Final = 8
_AMQP10_PROMISES: Final = (bytes([0, 0x53, 0x14]), bytes([0, 0x53, 0x15]))

# How a NACK to a peer begins: class, method, and the kind of the control message.
_NACK: Final = bytes([0xF0, 0, 0, 20, NACK])


class Lease:
    """Asked before anything is written, and told what must not be. Implemented by the host."""

    def has_lease(self) -> bool:
        raise NotImplementedError

    def nack_sent(self) -> None:
        """A peer is told that its epoch is over."""
        raise NotImplementedError

    def promised_without_lease(self, method: int) -> None:
        raise NotImplementedError


class LeaseTransport(Transport):
    """Between a node and the endpoint of a client. Held by the connection."""

    def __init__(self, endpoint: Endpoint, lease: Lease) -> None:
        self._endpoint = endpoint
        self._lease = lease
        # Of AMQP 1.0, which begins with a header in this direction too: what is left of a frame.
        self._is_amqp10 = False
        self._left = b""

    def write(self, data: bytes) -> None:
        if _NACK in data:
            self._lease.nack_sent()
        # A connection that is lost may still have output; it reaches nobody.
        is_promise = not self._endpoint.is_over and not self._lease.has_lease()
        self._is_amqp10 = self._is_amqp10 or data[:4] == _HEADER
        if self._is_amqp10:
            self._look_at_amqp10(data, is_promise)
        elif is_promise:
            self._look_at(data)
        self._endpoint.write(data)

    def _look_at(self, data: bytes) -> None:
        at = 0
        while at + _FRAME_OVERHEAD < len(data):
            if data[at] == _METHOD_FRAME:
                method = int.from_bytes(data[at + 7 : at + 11], "big")
                if method in _PROMISES:
                    self._lease.promised_without_lease(method)
            at += int.from_bytes(data[at + 3 : at + 7], "big") + _FRAME_OVERHEAD

    def _look_at_amqp10(self, data: bytes, is_promise: bool) -> None:
        octets = self._left + data
        while len(octets) >= _AMQP10_HEAD:
            is_header = octets[:4] == _HEADER
            size = _AMQP10_HEAD if is_header else int.from_bytes(octets[:4], "big")
            if len(octets) < size:
                break
            if not is_header and is_promise and octets[4 * octets[4] :][:3] in _AMQP10_PROMISES:
                self._lease.promised_without_lease(octets[4 * octets[4] + 2])
            octets = octets[size:]
        self._left = octets

    def close(self) -> None:
        self._endpoint.close()

    def abort(self) -> None:
        self._endpoint.abort()

    def has_hung_up(self) -> bool:
        return self._endpoint.has_hung_up()

    def pause_reading(self) -> None:
        self._endpoint.pause_reading()

    def resume_reading(self) -> None:
        self._endpoint.resume_reading()
