"""Damaged conversations between servers do no harm (see tests.cluster.fuzz)."""

from random import Random

import pytest

from penstock.formats.amqp091_frames import METHOD_FRAME, encode_frame
from penstock.wire.amqp091.methods_generated import (
    ClusterControl,
    ClusterHello,
    ClusterHelloOk,
    ClusterStream,
    ConnectionClose,
    Method,
)
from penstock.wire.amqp091.reply_codes_generated import COMMAND_INVALID
from penstock.wire.amqp091.states import Role
from tests.cluster.fuzz import Fuzzer, fuzz

SEEDS = range(1, 5)
INPUTS_PER_SEED = 1_500


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_links_do_no_harm(seed: int) -> None:
    fuzz(seed, INPUTS_PER_SEED)


@pytest.mark.parametrize(("role", "expected"), [(Role.SERVER, 6), (Role.CLIENT, 3)])
def test_the_undamaged_link_passes_everything_on(role: Role, expected: int) -> None:
    fuzzer = Fuzzer()
    [recorded] = [one for one in fuzzer.recordings if one.listener_role is role]
    for seed in range(3):
        fuzzer.hear(Random(seed), role, recorded.said)
        received = [call for call in fuzzer.last_heard if call[0] == "received"]
        assert len(received) == expected


@pytest.mark.parametrize(
    "method", [ClusterHello({}), ClusterHelloOk({}), ClusterControl(25), ClusterStream(5)]
)
@pytest.mark.parametrize("channel", [0, 1])
def test_an_ordinary_client_that_uses_the_class_of_servers_is_closed(
    method: Method, channel: int
) -> None:
    frame = encode_frame(METHOD_FRAME, channel, method.encode())
    [close] = Fuzzer().as_client(frame, Random(1))
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == COMMAND_INVALID
    assert close.reply_text.startswith("COMMAND_INVALID - ")
