"""Explanations agree with publishes, and say why."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.exchanges.kinds import make_exchange
from penstock.broker.message import Address, Message, Properties
from penstock.broker.publishing.explain import Explanation, topic_objection
from penstock.broker.publishing.publish import Outcome, publish
from penstock.broker.publishing.target import resolve_target
from penstock.broker.topology import BindExchange, BindQueue, DeclareExchange, DeclareQueue
from penstock.broker.vhost import VirtualHost
from tests.broker.doubles import PlainProperties, make_vhost

QUEUES = ("q0", "q1", "q2", "q3")
EXCHANGES = ("e0", "e1", "e2", "e3")
KINDS = ("direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message")
KEYS = ("a", "b", "a.b", "b.a", "", "a.b.a")
PATTERNS = (*KEYS, "*", "#", "a.*", "#.a", "*.b", "a.#")

headers_strategy = st.dictionaries(
    st.sampled_from(["x", "y", "hash"]), st.sampled_from([1, 2, "one"]), max_size=2
)


@st.composite
def topologies(draw: st.DrawFn) -> VirtualHost:
    vhost = make_vhost()
    for name in QUEUES:
        vhost.apply(DeclareQueue(name), 0)
    kinds: dict[str, str] = {}
    for name in EXCHANGES:
        kind = draw(st.sampled_from(KINDS))
        arguments: dict[str, object] = {}
        kinds[name] = kind
        if kind == "x-delayed-message":
            kinds[name] = draw(st.sampled_from(KINDS[:4]))
            arguments["x-delayed-type"] = kinds[name]
        if draw(st.booleans()):
            arguments["alternate-exchange"] = draw(st.sampled_from([*EXCHANGES, "missing"]))
        vhost.apply(DeclareExchange(name, kind, arguments=arguments), 0)
    for _ in range(draw(st.integers(0, 12))):
        source = draw(st.sampled_from(EXCHANGES))
        kind = kinds[source]
        key = draw(st.sampled_from(PATTERNS if kind == "topic" else KEYS))
        if kind == "x-consistent-hash":
            key = draw(st.sampled_from(["1", "2"]))
        wanted: dict[str, object] = {}
        if kind == "headers":
            wanted = dict(draw(headers_strategy))
            wanted["x-match"] = draw(st.sampled_from(["all", "any"]))
        if draw(st.booleans()):
            vhost.apply(BindQueue(draw(st.sampled_from(QUEUES)), source, key, wanted), 0)
        else:
            following = draw(st.sampled_from(EXCHANGES))
            vhost.apply(BindExchange(following, source, key, wanted), 0)
    return vhost


def explanation(
    vhost: VirtualHost, exchange: Exchange, key: str, properties: Properties
) -> Explanation:
    return Explanation(vhost.routing, vhost.bindings, exchange, key, properties)


@settings(max_examples=400, deadline=None)
@given(
    topologies(),
    st.sampled_from(["", *EXCHANGES]),
    st.sampled_from([*KEYS, *QUEUES]),
    headers_strategy,
    st.booleans(),
    st.lists(st.sampled_from([*KEYS, *QUEUES]), max_size=2),
)
def test_the_queues_of_an_explanation_are_those_that_a_publish_reaches(
    vhost: VirtualHost,
    exchange: str,
    key: str,
    headers: dict[str, object],
    is_delayed: bool,
    extra_keys: list[str],
) -> None:
    if is_delayed:
        headers = {**headers, "x-delay": 5_000}
    properties = PlainProperties(headers, extra_keys)
    explained = explanation(vhost, vhost.exchanges[exchange], key, properties)
    assert all(queue.message_count == 0 for queue in vhost.queues.values())
    assert vhost.delay_line.waiting.count == 0
    address = Address(exchange, key, b"")
    target = resolve_target(vhost.routing, vhost.exchanges[exchange], address)
    outcome = publish(vhost.routing, target, Message(address, properties, b"", 1), None, None, 0)
    reached = {queue.name for queue in vhost.queues.values() if queue.message_count}
    assert {queue.name for queue in explained.target.queues} == reached
    assert vhost.delay_line.waiting.count == len(explained.target.delayed)
    assert explained.target.reaches_any == (outcome is not Outcome.UNROUTED)
    check_words(explained, reached)


def check_words(explained: Explanation, reached: set[str]) -> None:
    """Every queue is reached by a binding that is said to match, and everything has a reason."""
    selected: set[str] = set()
    for passed in explained.passed.values():
        for binding in explained.bindings_of(passed):
            assert explained.why(passed, binding)
            if binding in passed.selected and binding.destination_queue is not None:
                selected.add(binding.destination_queue.name)
        if not passed.selected:
            assert passed.note
        if not passed.exchange.name:
            selected |= reached & set(explained.keys)
    assert selected == reached


def explained_words(vhost: VirtualHost, exchange: str, key: str, **headers: object) -> list[str]:
    found = explanation(vhost, vhost.exchanges[exchange], key, PlainProperties(headers))
    return [
        found.why(passed, binding)
        for passed in found.passed.values()
        for binding in found.bindings_of(passed)
    ]


def test_a_topic_says_which_word_differs() -> None:
    assert topic_objection("a.b", "a.c") == "word 2 of 'a.c' is 'c', not 'b'"
    assert topic_objection("a.b", "a") == "'a' has only 1 words"
    assert topic_objection("a", "a.b") == "'a.b' has more than 1 words"
    assert topic_objection("a.#.z", "a.b") == "no words of 'a.b' fit what is behind '#'"


def test_headers_say_which_one_failed() -> None:
    vhost = make_vhost()
    vhost.apply(DeclareQueue("q"), 0)
    vhost.apply(BindQueue("q", "amq.headers", "", {"x-match": "all", "a": 1, "b": 2}), 0)
    assert explained_words(vhost, "amq.headers", "", a=3) == [
        "header 'a' is 3, not 1; header 'b' is missing"
    ]
    assert explained_words(vhost, "amq.headers", "", a=1, b=2) == [
        "every header that the binding wants is there"
    ]


def test_turns_are_not_taken() -> None:
    vhost = make_vhost()
    arguments = {"x-partitions": 2, "x-partition-by": "round-robin"}
    exchange = DeclareExchange("p", "x-partitioned-stream", durable=True, arguments=arguments)
    # Streams need files, so ordinary queues stand in for the partitions.
    vhost.apply(DeclareQueue("p-0"), 0)
    vhost.apply(DeclareQueue("p-1"), 0)
    made = make_exchange("p", exchange.kind, True, False, False, exchange.arguments)
    vhost.exchanges["p"] = made
    for number in range(2):
        made.add(Binding(made, vhost.queue(f"p-{number}"), None, str(number), {}))
    for _ in range(3):
        found = explanation(vhost, made, "k", PlainProperties())
        assert [queue.name for queue in found.target.queues] == ["p-0"]
    target = resolve_target(vhost.routing, made, Address("p", "k", b""))
    message = Message(Address("p", "k", b""), PlainProperties(), b"", 1)
    publish(vhost.routing, target, message, None, None, 0)
    assert vhost.queue("p-0").message_count == 1


def test_a_full_queue_says_what_it_does() -> None:
    vhost = make_vhost()
    for overflow in ("drop-head", "reject-publish", "reject-publish-dlx"):
        arguments: dict[str, object] = {"x-max-length": 0, "x-overflow": overflow}
        vhost.apply(DeclareQueue(overflow, arguments=arguments), 0)
    found = explanation(vhost, vhost.exchanges[""], "drop-head", PlainProperties())
    assert "drops its oldest" in found.room_in(vhost.queue("drop-head"), 1)
    assert "refuses the message (" in found.room_in(vhost.queue("reject-publish"), 1)
    assert "dead-letters" in found.room_in(vhost.queue("reject-publish-dlx"), 1)
    vhost.apply(DeclareQueue("roomy"), 0)
    assert not found.room_in(vhost.queue("roomy"), 1)
