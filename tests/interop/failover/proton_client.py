"""Proton: `Container.connect` takes a list of addresses, and attaches the links again by itself."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from proton import Delivery, Message
from proton.handlers import MessagingHandler
from proton.reactor import Backoff, Container

from tests.interop.failover.errand import (
    PAUSE_SECONDS,
    REST_SECONDS,
    WINDOW,
    Errand,
    body_of,
    errand,
    report_confirmed,
    report_received,
    until_told,
)

if TYPE_CHECKING:
    from proton import Connection, Event, Sender


def connect(container: Container, work: Errand) -> Connection:
    backoff = Backoff(initial=PAUSE_SECONDS, max_delay=PAUSE_SECONDS, max_tries=None)
    return container.connect(urls=work.uris(), reconnect=backoff)


class Sending(MessagingHandler):
    def __init__(self, work: Errand, told: threading.Event) -> None:
        super().__init__()
        self._work = work
        self._told = told
        self._next = 0
        self._doubtful: deque[int] = deque()
        self._sent: dict[Delivery, int] = {}
        self._sender: Sender | None = None
        # Proton keeps what is sent without a connection, and would send it beside the repetition.
        self._is_attached = False

    def on_start(self, event: Event) -> None:
        connection = connect(event.container, self._work)
        self._sender = event.container.create_sender(connection, self._work.queue)
        event.container.schedule(REST_SECONDS, self)

    def on_timer_task(self, event: Event) -> None:
        sender = self._sender
        assert sender is not None
        if self._told.is_set() and not self._doubtful and not self._sent:
            sender.connection.close()
            return
        if self._is_attached and sender.credit > 0 and len(self._sent) < WINDOW:
            self._send_one(sender)
        event.container.schedule(REST_SECONDS, self)

    def _send_one(self, sender: Sender) -> None:
        is_again = bool(self._doubtful)
        if is_again:
            number = self._doubtful.popleft()
        elif self._told.is_set():
            return
        else:
            number, self._next = self._next, self._next + 1
        # The broker says whether it is still true when it delivers the message.
        message = Message(body=body_of(number, is_again), durable=True, first_acquirer=True)
        delivery = sender.send(message)
        assert isinstance(delivery, Delivery)
        self._sent[delivery] = number

    def on_link_opened(self, event: Event) -> None:
        self._is_attached = True

    def on_accepted(self, event: Event) -> None:
        delivery = event.delivery
        # One of a lost connection is sent again.
        if delivery is not None and delivery in self._sent:
            report_confirmed(self._sent.pop(delivery))

    def on_disconnected(self, event: Event) -> None:
        self._is_attached = False
        self._doubtful.extend(self._sent.values())
        self._sent.clear()


class Receiving(MessagingHandler):
    def __init__(self, work: Errand) -> None:
        super().__init__(prefetch=WINDOW)
        self._work = work

    def on_start(self, event: Event) -> None:
        event.container.create_receiver(connect(event.container, self._work), self._work.queue)

    def on_message(self, event: Event) -> None:
        report_received(event.message.body, not event.message.first_acquirer)


if __name__ == "__main__":
    mine = errand()
    Container(Sending(mine, until_told()) if mine.is_sender else Receiving(mine)).run()
