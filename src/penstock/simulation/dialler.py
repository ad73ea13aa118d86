"""Connections that a simulated host dials: the counterpart of `server.dialler`.

Hosts are dialled by name; the port of an address means nothing here, and TLS neither.
"""

from functools import partial

from penstock.simulation.endpoint import Endpoint, StreamUser
from penstock.simulation.host import Host
from penstock.simulation.network import Network
from penstock.world.network import DialAddress, Dialler, DialListener


class HostDialler(Dialler):
    """Held by the node of one host."""

    def __init__(self, host: Host, network: Network) -> None:
        self._host = host
        self._network = network

    def dial(self, address: DialAddress, listener: DialListener) -> None:
        stream = DialledStream(self._host, listener, address)
        self._network.dial(address.host, self._host.name, stream.answered)


class DialledStream(StreamUser):
    """The user of the near end of a dialled line. It belongs to one life of its host."""

    def __init__(self, host: Host, listener: DialListener, address: DialAddress) -> None:
        self._host = host
        self._listener = listener
        self._address = address
        self._life = host.life

    def answered(self, endpoint: Endpoint | None) -> None:
        self._host.when_running(self._life, partial(self._answered, endpoint))

    def _answered(self, endpoint: Endpoint | None) -> None:
        if not self._is_alive():
            if endpoint is not None:
                endpoint.abort()
            return
        if endpoint is None:
            self._listener.lost(f"cannot connect to {self._address}: refused", self._host.now())
        else:
            endpoint.user = self
            self._host.has_dialled(endpoint)
            transport = self._host.transport(endpoint)
            self._listener.connected(transport, self._host.now())
        self._host.schedule_flush()

    def received(self, data: bytes) -> None:
        self._host.when_running(self._life, partial(self._received, data))

    def _received(self, data: bytes) -> None:
        if self._is_alive():
            self._listener.received(data, self._host.now())
            self._host.schedule_flush()

    def lost(self) -> None:
        self._host.when_running(self._life, self._lost)

    def _lost(self) -> None:
        if self._is_alive():
            self._listener.lost("", self._host.now())
            self._host.schedule_flush()

    def writable_changed(self, writable: bool) -> None:
        self._host.when_running(self._life, partial(self._writable_changed, writable))

    def _writable_changed(self, writable: bool) -> None:
        if self._is_alive():
            self._listener.writable(writable, self._host.now())
            self._host.schedule_flush()

    def _is_alive(self) -> bool:
        return self._host.is_up and self._host.life == self._life
