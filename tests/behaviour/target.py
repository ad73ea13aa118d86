"""The broker a behaviour test drives, and how its users, vhosts and policies are administered.

Invariant: a test asks only for what RabbitMQ and Penstock both have. What differs is how a
policy is set: RabbitMQ over its management HTTP interface, Penstock on the in-process object.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.raw import RawConnection

if TYPE_CHECKING:
    from penstock import Broker

# Long enough for a loaded two-core machine, short enough that a lost answer fails a test soon.
BLOCKED_SECONDS = 20

_numbers = itertools.count(1)


class Administration(ABC):
    """What an operator may do; held by the `broker` fixture."""

    @abstractmethod
    def add_vhost(self, vhost: str) -> None: ...

    @abstractmethod
    def delete_vhost(self, vhost: str) -> None: ...

    @abstractmethod
    def add_user(self, user: str, password: str) -> None: ...

    @abstractmethod
    def delete_user(self, user: str) -> None: ...

    @abstractmethod
    def set_permissions(
        self, user: str, vhost: str, configure: str, write: str, read: str
    ) -> None: ...

    @abstractmethod
    def set_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, object],
        priority: int = 0,
        apply_to: str = "all",
    ) -> None: ...

    @abstractmethod
    def clear_policy(self, vhost: str, name: str) -> None: ...

    @abstractmethod
    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> None: ...

    @abstractmethod
    def clear_topic_permissions(self, user: str, vhost: str) -> None: ...

    @abstractmethod
    def limit_user(self, user: str, max_connections: int = -1, max_channels: int = -1) -> None: ...

    @abstractmethod
    def set_operator_policy(
        self, vhost: str, name: str, pattern: str, definition: dict[str, object]
    ) -> None: ...

    @abstractmethod
    def clear_operator_policy(self, vhost: str, name: str) -> None: ...


class PolicyRefusedError(Exception):
    """The broker did not accept a policy's definition; the text says why."""


class ManagementAdministration(Administration):
    """RabbitMQ's management plugin over HTTP."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url.rstrip("/")
        self.credentials = base64.b64encode(f"{user}:{password}".encode()).decode()

    def add_vhost(self, vhost: str) -> None:
        self._send("PUT", ["vhosts", vhost], {})

    def delete_vhost(self, vhost: str) -> None:
        self._send("DELETE", ["vhosts", vhost])

    def add_user(self, user: str, password: str) -> None:
        self._send("PUT", ["users", user], {"password": password, "tags": ""})

    def delete_user(self, user: str) -> None:
        self._send("DELETE", ["users", user])

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        permissions = {"configure": configure, "write": write, "read": read}
        self._send("PUT", ["permissions", vhost, user], permissions)

    def set_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, object],
        priority: int = 0,
        apply_to: str = "all",
    ) -> None:
        policy = {
            "pattern": pattern,
            "definition": definition,
            "priority": priority,
            "apply-to": apply_to,
        }
        try:
            self._send("PUT", ["policies", vhost, name], policy)
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise PolicyRefusedError(refusal.read().decode()) from None

    def clear_policy(self, vhost: str, name: str) -> None:
        self._send("DELETE", ["policies", vhost, name])

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> None:
        permissions = {"exchange": exchange, "write": write, "read": read}
        self._send("PUT", ["topic-permissions", vhost, user], permissions)

    def clear_topic_permissions(self, user: str, vhost: str) -> None:
        self._send("DELETE", ["topic-permissions", vhost, user])

    def limit_user(self, user: str, max_connections: int = -1, max_channels: int = -1) -> None:
        self._send("PUT", ["user-limits", user, "max-connections"], {"value": max_connections})
        self._send("PUT", ["user-limits", user, "max-channels"], {"value": max_channels})

    def set_operator_policy(
        self, vhost: str, name: str, pattern: str, definition: dict[str, object]
    ) -> None:
        policy = {"pattern": pattern, "definition": definition, "apply-to": "queues"}
        try:
            self._send("PUT", ["operator-policies", vhost, name], policy)
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise PolicyRefusedError(refusal.read().decode()) from None

    def clear_operator_policy(self, vhost: str, name: str) -> None:
        self._send("DELETE", ["operator-policies", vhost, name])

    def _send(self, verb: str, path: list[str], body: object = None) -> None:
        quoted = "/".join(urllib.parse.quote(part, safe="") for part in path)
        request = urllib.request.Request(
            f"{self.url}/api/{quoted}",
            method=verb,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Basic {self.credentials}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=BLOCKED_SECONDS):
            pass


class InProcessAdministration(Administration):
    """Penstock in this process, asked directly."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def add_vhost(self, vhost: str) -> None:
        self.broker.add_vhost(vhost)

    def delete_vhost(self, vhost: str) -> None:
        self.broker.delete_vhost(vhost)

    def add_user(self, user: str, password: str) -> None:
        self.broker.add_user(user, password)

    def delete_user(self, user: str) -> None:
        self.broker.delete_user(user)

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.broker.set_permissions(user, vhost, configure, write, read)

    def set_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, object],
        priority: int = 0,
        apply_to: str = "all",
    ) -> None:
        # Not at the top: RabbitMQ's behaviour can be asked without Penstock installed.
        from penstock.broker.errors import Refusal

        try:
            self.broker.set_policy(vhost, name, pattern, definition, priority, apply_to)
        except Refusal as refusal:
            raise PolicyRefusedError(str(refusal)) from None

    def clear_policy(self, vhost: str, name: str) -> None:
        self.broker.clear_policy(vhost, name)

    # Values of the core, not imported at the top: RabbitMQ's behaviour can be asked without it.

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> None:
        from penstock.broker.topology import SetTopicPermissions

        self.broker.apply(SetTopicPermissions(user, vhost, exchange, write, read))

    def clear_topic_permissions(self, user: str, vhost: str) -> None:
        from penstock.broker.topology import ClearTopicPermissions

        self.broker.apply(ClearTopicPermissions(user, vhost))

    def limit_user(self, user: str, max_connections: int = -1, max_channels: int = -1) -> None:
        from penstock.broker.topology import SetUserLimits

        self.broker.apply(SetUserLimits(user, max_connections, max_channels))

    def set_operator_policy(
        self, vhost: str, name: str, pattern: str, definition: dict[str, object]
    ) -> None:
        from penstock.broker.errors import Refusal
        from penstock.broker.topology import SetOperatorPolicy

        try:
            self.broker.apply(SetOperatorPolicy(name, pattern, definition, "queues"), vhost)
        except Refusal as refusal:
            raise PolicyRefusedError(str(refusal)) from None

    def clear_operator_policy(self, vhost: str, name: str) -> None:
        from penstock.broker.topology import ClearOperatorPolicy

        self.broker.apply(ClearOperatorPolicy(name), vhost)


class Target:
    """A running broker and one vhost in it; lives as long as the test session."""

    def __init__(
        self,
        host: str,
        port: int,
        vhost: str,
        administration: Administration | None,
        *,
        user: str = "guest",
        password: str = "guest",
        is_rabbitmq: bool = False,
    ) -> None:
        self.host = host
        self.port = port
        self.vhost = vhost
        self.administration = administration
        self.user = user
        self.password = password
        self.is_rabbitmq = is_rabbitmq


class BrokerUnderTest:
    """What one test holds: connections that end with the test, and names nobody else has."""

    def __init__(self, target: Target, administration: Administration | None) -> None:
        self.host = target.host
        self.port = target.port
        self.vhost = target.vhost
        self.user = target.user
        self.password = target.password
        self.is_rabbitmq = target.is_rabbitmq
        self._administration = administration
        self._closing = contextlib.ExitStack()

    @property
    def url(self) -> str:
        quoted = urllib.parse.quote(self.vhost, safe="")
        return f"amqp://{self.user}:{self.password}@{self.host}:{self.port}/{quoted}"

    @property
    def administration(self) -> Administration:
        assert self._administration is not None, "the test should have been skipped"
        return self._administration

    def name(self, stem: str = "it") -> str:
        """A name no other test of any process uses, so that tests may share a vhost."""
        return f"{stem}-{os.getpid()}-{next(_numbers)}"

    def connect(
        self,
        *,
        user: str | None = None,
        password: str | None = None,
        vhost: str | None = None,
    ) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(
            host=self.host,
            port=self.port,
            virtual_host=self.vhost if vhost is None else vhost,
            credentials=pika.PlainCredentials(user or self.user, password or self.password),
            blocked_connection_timeout=BLOCKED_SECONDS,
        )
        connection = pika.BlockingConnection(parameters)
        self._closing.callback(_close_quietly, connection)
        return connection

    def channel(self) -> BlockingChannel:
        """A channel on a connection of its own."""
        return self.connect().channel()

    def queue(
        self,
        channel: BlockingChannel,
        arguments: dict[str, object] | None = None,
        *,
        exclusive: bool = True,
        durable: bool = False,
    ) -> str:
        """Declare a queue under a name of its own, by default one that goes with the channel's
        connection.
        """
        name = self.name("queue")
        channel.queue_declare(name, exclusive=exclusive, durable=durable, arguments=arguments)
        return name

    def exchange(
        self,
        channel: BlockingChannel,
        kind: str = "direct",
        arguments: dict[str, object] | None = None,
    ) -> str:
        name = self.name("exchange")
        channel.exchange_declare(name, kind, arguments=arguments)
        return name

    def raw(self) -> RawConnection:
        """A connected socket on which nothing was said yet."""
        return self._closing.enter_context(RawConnection(self.host, self.port))

    def raw_open(
        self,
        *,
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
        vhost: str | None = None,
    ) -> RawConnection:
        """A raw connection with channel 1 open."""
        connection = self.raw().open(
            self.user,
            self.password,
            self.vhost if vhost is None else vhost,
            channel_max=channel_max,
            frame_max=frame_max,
            heartbeat=heartbeat,
        )
        connection.open_channel(1)
        return connection

    def close(self) -> None:
        self._closing.close()


def _close_quietly(connection: pika.BlockingConnection) -> None:
    with contextlib.suppress(pika.exceptions.AMQPError):
        if connection.is_open:
            connection.close()
