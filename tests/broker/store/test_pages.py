"""What is paged out comes back as it was, however much it is like what lies before it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.queues.paged_list import PagedReadyList, PagingLimits
from penstock.broker.store.limits import StoreLimits
from penstock.broker.store.pages import PAGE_BYTES, WORTH_BYTES
from penstock.storage.checked_reading import WHOLE_BYTES_MAX
from tests.broker.store.doubles import ROOMY, Broker, message

# All but the first goes to disk and is read back in one page.
ONE_PAGE = StoreLimits(
    paging=PagingLimits(head_count_max=1, head_count_kept=1, head_bytes_max=1 << 30, page_count=50)
)

# Few values of each, so that many records repeat the one before and many differ in one thing only.
PARTS = st.fixed_dictionaries(
    {
        "body": st.sampled_from([b"", b"a", b"b", b"xyz", b"x" * 300]),
        "key": st.sampled_from(["q", "k"]),
        "exchange": st.sampled_from(["", "e"]),
        "expiration": st.sampled_from([None, None, "60000"]),
        "headers": st.sampled_from([None, {"h": "1"}, {"h": "2"}]),
        "origin": st.sampled_from([7, 8, -1]),
        "persistent": st.booleans(),
    }
)


def facts_of(one: Message) -> tuple[object, ...]:
    address = one.address
    properties = one.properties.encoded()
    return (address.exchange, address.routing_key, properties, one.body, one.origin)


@given(parts=st.lists(PARTS, min_size=2, max_size=40), durable=st.booleans())
def test_messages_come_back_as_they_were_in_order(
    parts: list[dict[str, object]], durable: bool
) -> None:
    broker = Broker(limits=ONE_PAGE)
    queue = broker.declare("q", durable=durable)
    sent = [message(**part) for part in parts]  # type: ignore[arg-type]
    expected: list[tuple[object, ...]] = []
    for one in sent:
        assert queue.enqueue(one, broker.now)
    for number in range(len(sent)):
        entry = queue.journal_list().entry_of(number + 1)
        assert entry is not None
        expected.append((*facts_of(entry.message), entry.expires_at))
    broker.tick()
    ready = queue.journal_list()
    assert isinstance(ready, PagedReadyList)
    assert ready.tail_count() == len(sent) - 1
    found: list[QueueEntry] = []
    while ready.count:
        found.append(ready.pop_first())
    assert [(*facts_of(entry.message), entry.expires_at) for entry in found] == expected
    assert [entry.position for entry in found] == list(range(1, len(sent) + 1))
    # What the journal holds is known by its place, for whoever acknowledges it.
    for entry in found[1:]:
        is_kept = durable and entry.message.properties.persistent
        assert entry.message.is_journalled == is_kept
        assert (entry.message.location >= 0) == is_kept


def test_a_page_ends_with_the_block_it_has_enough_of() -> None:
    limits = StoreLimits(
        paging=PagingLimits(
            head_count_max=1, head_count_kept=1, head_bytes_max=1 << 30, page_count=10_000
        )
    )
    broker = Broker(limits=limits)
    queue = broker.declare("q", durable=False)
    body = b"x" * 1000
    broker.put("q", *[body] * 2000, persistent=False)
    broker.tick()
    queue.journal_list().pop_first()
    sizes: list[int] = []
    while queue.journal_list().count:
        before = queue.journal_list().count
        page = queue.journal_list().pop_many(10_000)
        assert {entry.message.body for entry in page} == {body}
        sizes.append(before - queue.journal_list().count)
    assert len(sizes) > 3
    # The last one is what was left.
    assert all(WORTH_BYTES <= size * len(body) < PAGE_BYTES for size in sizes[:-1])


def test_of_a_large_batch_each_message_is_read_whole() -> None:
    """Only pieces of such a batch are read, and they end within a message."""
    broker = Broker(limits=ROOMY)
    broker.declare("q")
    bodies = [b"%06d" % number + b"x" * 1000 for number in range(WHOLE_BYTES_MAX // 1000 + 1000)]
    broker.put("q", *bodies)
    broker.tick()
    assert broker.restarted().drain("q") == bodies
