"""Brokers whose storage has a defect each, for proving that crashes bring them to light.

A defect sits in the disk, in what is on it when a node starts, or where the host drives the node.
"""

from functools import partial

from penstock.broker.definition_log import DefinitionLog
from penstock.broker.message import Message
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.store import records
from penstock.broker.topology import BrokerCommand, SetTopicPermissions, VhostCommand
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.disk import SimulatedDisk, SimulatedFile
from penstock.simulation.durable_host import DurableHost, stored_of
from penstock.simulation.endpoint import Endpoint
from penstock.storage.batch import BATCH_HEADER_BYTES, BatchReader, batch_header
from penstock.storage.segment import SEGMENT_HEADER_BYTES, batch_seed, decode_segment_header
from penstock.world.disk import AppendFile, FlushListener
from penstock.world.network import Transport
from tests.simulation.planted import FlagForgettingTransport

JOURNAL = "journal/"


class LyingDisk(SimulatedDisk):
    """Says at once that everything is safe, and makes it safe when it likes."""

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        super().flush(files, token, Silence())
        self._clock.after(0, partial(self._lie, self.incarnation, token, listener))

    def _lie(self, incarnation: int, token: int, listener: FlushListener) -> None:
        if incarnation == self.incarnation:
            listener.flushed(token, self._clock.now())
            assert self.when_answered is not None
            self.when_answered()


class Silence(FlushListener):
    def flushed(self, token: int, now: int) -> None:
        pass

    def flush_failed(self, reason: str, now: int) -> None:
        pass


class DisorderlyDisk(SimulatedDisk):
    """Brings back, with a power loss, the first segment that was ever removed, and it alone."""

    first: tuple[str, SimulatedFile] | None = None

    def remove(self, name: str) -> None:
        if self.first is None and name.startswith(JOURNAL):
            self.first = (name, self._files[name])
        super().remove(name)

    def crash(self) -> None:
        super().crash()
        if self.first is not None:
            name, file = self.first
            self._files[name] = file.in_a_new_process()


class NoteForgettingDisk(SimulatedDisk):
    """Leaves the notes of publishers out of every flush."""

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        notes = {self._files[name] for name in self.names() if name.endswith(".pub")}
        super().flush([file for file in files if file not in notes], token, listener)


class NoteForgettingHost(DurableHost):
    """Tells that rows of a sink are safe before the note that counts them is."""

    def make_disk(self, clock: VirtualClock, dice: Dice) -> SimulatedDisk:
        return NoteForgettingDisk(clock, dice)


class LyingHost(DurableHost):
    """Confirms before the flush."""

    def make_disk(self, clock: VirtualClock, dice: Dice) -> SimulatedDisk:
        return LyingDisk(clock, dice)


class DisorderlyHost(DurableHost):
    """Removes what left a queue before it removes the message."""

    def make_disk(self, clock: VirtualClock, dice: Dice) -> SimulatedDisk:
        return DisorderlyDisk(clock, dice)


class ForgetfulDefinitions(DefinitionLog):
    """Does not write down the topic permissions that are set."""

    def __init__(self, kept: DefinitionLog) -> None:
        super().__init__()
        self._kept = kept
        self.change_count = kept.change_count

    def vhost_changed(self, vhost: str, command: VhostCommand, gone_number: int = 0) -> None:
        self._kept.vhost_changed(vhost, command, gone_number)
        self.change_count = self._kept.change_count

    def broker_changed(self, command: BrokerCommand, gone_number: int = 0) -> None:
        if not isinstance(command, SetTopicPermissions):
            self._kept.broker_changed(command, gone_number)
            self.change_count = self._kept.change_count


class TopicForgettingHost(DurableHost):
    """Answers a change of administration that is not journalled."""

    def start(self) -> None:
        super().start()
        state = self.node.state
        state.log_definitions(ForgetfulDefinitions(state.definitions))


class Splitting(PublishInterceptor):
    """Ends a batch in the middle of a tick."""

    def __init__(self, host: DurableHost) -> None:
        self._host = host

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        stored_of(self._host.node).end_of_tick(now)
        return True


class SplittingHost(DurableHost):
    """Writes a transaction in several batches."""

    def start(self) -> None:
        super().start()
        self.node.intercept_publishes(Splitting(self))


class HastyHost(DurableHost):
    """Removes a segment that is still needed."""

    def swept(self) -> None:
        super().swept()
        stored = stored_of(self.node)
        segments = stored.journal.segments()
        if len(segments) > 2 and stored.store.lives.of(segments[0]).live_count:
            stored.journal.remove_segment(segments[0])


class RangeForgettingHost(DurableHost):
    """Starts without one of the ranges that say what left a queue."""

    def start(self) -> None:
        for name in self.disk.names():
            if name.startswith(JOURNAL) and forget_range(self.disk.open(name)):
                break
        super().start()


def forget_range(file: AppendFile) -> bool:
    """Makes the first range of a segment empty; a batch around it stays valid."""
    assert isinstance(file, SimulatedFile)
    header = decode_segment_header(bytes(file.content[:SEGMENT_HEADER_BYTES]))
    if header is None:
        return False
    seed = batch_seed(header.store_id)
    reader = BatchReader(file, SEGMENT_HEADER_BYTES, header.position, seed)
    while reader.next():
        at = 0
        payload = bytearray(reader.payload)
        while at < len(payload):
            if payload[at] == records.DEQUEUED:
                count = at + records.HEAD_SIZE + 16 + 8
                payload[count : count + 4] = bytes(4)
                start = reader.payload_offset - BATCH_HEADER_BYTES
                position = header.position + start - SEGMENT_HEADER_BYTES
                changed = batch_header(bytes(payload), position, reader.durable, seed)
                file.content[start : reader.offset] = changed + payload
                return True
            at += records.size_at(bytes(payload), at)
    return False


class ForgetfulHost(DurableHost):
    """Does not flag what was there before a restart."""

    def transport(self, endpoint: Endpoint) -> Transport:
        return FlagForgettingTransport(endpoint) if self.life > 1 else endpoint
