"""An octet that changes on disk while a broker runs stops it; it never reaches a consumer."""

import pytest

from penstock.broker.store.limits import StoreLimits
from penstock.storage.memory_disk import MemoryDisk
from penstock.world.disk import DiskError
from tests.broker.store.doubles import SMALL, Broker


def flip(broker: Broker, folder: str, octets: bytes) -> str:
    """Change one octet of what was written once; returns the file."""
    assert isinstance(broker.disk, MemoryDisk)
    for name, file in broker.disk.files.items():
        at = file.content.find(octets)
        if name.startswith(folder) and at >= 0:
            file.content[at] ^= 1
            return name
    raise AssertionError(f"{octets!r} is not there")


def bodies(count: int) -> list[bytes]:
    return [b"body number %04d" % number for number in range(count)]


@pytest.mark.parametrize(("persistent", "folder"), [(True, "journal/"), (False, "spool/")])
def test_a_message_that_was_paged_out_is_checked_before_it_is_delivered(
    persistent: bool, folder: str
) -> None:
    broker = Broker()
    broker.declare("q")
    sent = bodies(200)
    for body in sent:
        broker.put("q", body, persistent=persistent)
        broker.tick()
    name = flip(broker, folder, sent[-1])
    with pytest.raises(DiskError, match=f"{name} is damaged"):
        broker.drain("q")
    assert all(entry.message.body in sent for _, entry in broker.out)


def test_a_damaged_record_is_not_copied_with_a_new_checksum() -> None:
    broker = Broker()
    broker.declare("q")
    sent = bodies(60)
    for body in sent:
        broker.put("q", body)
        broker.tick()
    entries = [broker.get("q") for _ in sent]
    flip(broker, "journal/", sent[0])
    for entry in entries[1:]:
        broker.acknowledge(entry)
    with pytest.raises(DiskError, match="store salvage"):
        broker.rest()


def test_a_restarted_broker_checks_what_it_reads_later() -> None:
    broker = Broker()
    broker.declare("q")
    sent = bodies(200)
    for body in sent:
        broker.put("q", body)
        broker.tick()
    again = broker.restarted(limits=StoreLimits(paging=SMALL.paging))
    flip(again, "journal/", sent[150])
    with pytest.raises(DiskError, match="is damaged at offset"):
        again.drain("q")
