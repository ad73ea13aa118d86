"""Connections to the sources of replicas: addresses of clients, with the TLS settings that each names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.client.errors import UriInvalid
from penstock.client.tls import tls_context
from penstock.ha.standalone.replica_dialler import ReplicaDialler
from penstock.server.dialler import SocketDialler
from penstock.world.network import DialAddress

if TYPE_CHECKING:
    from penstock.client.uri import Address
    from penstock.server.server import Server
    from penstock.world.network import DialListener


class SourceDialler(ReplicaDialler):
    """The dialler of a node that is made before its server. Held by the node."""

    def __init__(self) -> None:
        self._server: Server | None = None
        self._sockets: SocketDialler | None = None

    def attach(self, server: Server) -> None:
        self._server = server

    def dial(self, address: Address, listener: DialListener) -> None:
        server = self._server
        assert server is not None, "attached before the first tick"
        if self._sockets is None:
            # Few servers need it. An operator who writes amqp:// has chosen to do without TLS.
            self._sockets = SocketDialler(server, allows_plain=True)
        tls = address.tls
        where = DialAddress(address.host, address.port, tls is not None)
        if tls is None:
            self._sockets.dial_with(where, listener, None)
            return
        try:
            context = tls_context(tls)
        except UriInvalid as error:
            asyncio.get_running_loop().call_soon(listener.lost, str(error), server.now())
            return
        self._sockets.dial_with(where, listener, context, tls.server_name)
