"""Abandoned sinks: what they have staged is dropped, and they are deleted where nothing need be
remembered.

A driver that died leaves staged rows behind. When it is restarted it stages again, so nothing is
lost by dropping them; but a job may take hours between its first task and its commit.
"""

from typing import Final

from penstock.broker.sink_table import Sink
from penstock.broker.sinks.stages import BATCHES_MAX, drop_stages, stages_of
from penstock.broker.timers import NEVER, Timer
from penstock.broker.topology import CommitSink
from penstock.broker.vhost import VirtualHost

# A sink for which nobody stages or commits for so long has lost its driver. This is longer than any
# job runs without finishing a task, and than an unattended night.
IDLE_MS_MAX: Final = 24 * 60 * 60 * 1000


class SinkExpiry(Timer):
    """Held by its sink, and by the timers while there is something to drop."""

    def __init__(self, vhost: VirtualHost, sink: Sink) -> None:
        super().__init__()
        self._vhost: VirtualHost = vhost
        self._sink: Sink = sink

    def fire(self, now: int) -> None:
        sink = self._sink
        vhost = self._vhost
        if vhost.sinks.get(sink.name) is not sink or vhost.delay_line.is_closed:
            # Forgotten, or its virtual host is deleted.
            return
        due = now + IDLE_MS_MAX if sink.pending else expires_at(sink)
        if now < due:
            vhost.timers.schedule(self, due)
            return
        drop_stages(vhost, sink, BATCHES_MAX, now)
        if is_forgettable(sink):
            vhost.apply(CommitSink(sink.name, -1, ()), now)


def touch_sink(vhost: VirtualHost, sink: Sink, now: int) -> None:
    """It is used, or the broker has started: the time of its last use is not stored."""
    sink.touched_at = now
    if sink.expiry is None:
        sink.expiry = SinkExpiry(vhost, sink)
    if sink.expiry.due == NEVER:
        vhost.timers.schedule(sink.expiry, expires_at(sink))


def rest_sink(vhost: VirtualHost, sink: Sink) -> None:
    """Everything that was committed is published: check whether anything is left to drop later."""
    if sink.expiry is not None and not is_forgettable(sink) and not stages_of(vhost, sink.name):
        vhost.timers.cancel(sink.expiry)


def expires_at(sink: Sink) -> int:
    return sink.touched_at + IDLE_MS_MAX


def is_forgettable(sink: Sink) -> bool:
    """Whether no batch of it can be repeated: it belongs to one job, or has committed none."""
    return sink.temporary or sink.batch < 0
