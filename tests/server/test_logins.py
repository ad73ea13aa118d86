"""Logins by the hundred: wrong ones hold up nobody else, and guessing has a rate."""

import selectors
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pika.exceptions
import pytest

from penstock import Broker
from penstock.broker.access.login_delay import COMPARISON_MS, DELAY_MS_MAX, delay_ms
from tests.behaviour.raw import RawConnection, plain
from tests.server.http.asking import Pages, serving
from tests.server.opened import pika_connection
from tests.server.raw_client import wait_for

# Each costs argon2's 20 ms of one core at least, so checking all of them takes 20 s and more.
CROWD = 1_000
# Far below that, and far above what one login takes on a busy machine.
LOGIN_SECONDS = 8.0
GUESSES = 60
# As long as the guesses took before they were held back.
GUESSING_SECONDS = 6.4
ANSWER_SECONDS = 60.0
# After a password that was compared and is wrong, the next comparison is this much later.
COMPARISON_SECONDS = COMPARISON_MS / 1000 + 0.1


class SourcedConnection(RawConnection):
    """Comes from one of the loopback network's many addresses."""

    def __init__(self, broker: Broker, source: str) -> None:
        super().__init__(broker.host, broker.port)
        self.socket.close()
        self.socket = socket.create_connection(
            (broker.host, broker.port), timeout=ANSWER_SECONDS, source_address=(source, 0)
        )


def send_login(broker: Broker, user: str, password: str) -> socket.socket:
    """A login whose answer nobody has read yet."""
    client = RawConnection(broker.host, broker.port)
    client.login(plain(user, password))
    return client.socket


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
@pytest.mark.parametrize("names", ["one name", "many names"])
def test_wrong_logins_that_disconnect_at_once_hold_up_nobody(source: str, names: str) -> None:
    with Broker() as broker:
        for number in range(CROWD):
            user = "nobody" if names == "one name" else f"nobody{number}"
            send_login(broker, user, "wrong").close()
        began = time.monotonic()
        with SourcedConnection(broker, source) as client:
            client.login(plain("guest", "guest"))
            client.read_frame(ANSWER_SECONDS)
            assert time.monotonic() - began < LOGIN_SECONDS
        # And nothing is left of them.
        wait_for(lambda: broker.connection_count == 0, 60)


def outcomes(sockets: list[socket.socket], seconds: float) -> Counter[str]:
    """What the broker answers to each within some time: a reply code, or that it hung up."""
    selector = selectors.DefaultSelector()
    for raw in sockets:
        raw.setblocking(False)
        selector.register(raw, selectors.EVENT_READ)
    found: Counter[str] = Counter()
    deadline = time.monotonic() + seconds
    while selector.get_map() and (left := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            answered = key.fileobj
            assert isinstance(answered, socket.socket)
            said = answered.recv(4096)
            found[str(int.from_bytes(said[11:13], "big")) if said else "hung up"] += 1
            selector.unregister(answered)
    return found


def checked_at_most(seconds: float) -> int:
    """Guesses of one user from one host that can have been checked by then."""
    count, passed = 1, 0.0
    while passed <= seconds:
        passed += delay_ms(count) / 1000
        count += 1
    return count


def test_parallel_guesses_are_bounded_in_rate() -> None:
    with Broker() as broker:
        broker.add_user("u", "secret")
        began = time.monotonic()
        sockets = [send_login(broker, "u", f"guess {number}") for number in range(GUESSES)]
        told = outcomes(sockets, ANSWER_SECONDS)
        passed = time.monotonic() - began
        # The others hear that they were not looked at.
        assert set(told) == {"403", "506"}
        assert told.total() == GUESSES
        assert told["403"] <= checked_at_most(passed)
        assert passed > GUESSING_SECONDS
        for raw in sockets:
            raw.close()


def test_a_known_password_is_not_held_up_by_wrong_ones_from_the_same_host() -> None:
    with Broker() as broker:
        pika_connection(broker.url).close()
        wrong = [send_login(broker, "guest", "wrong") for _ in range(20)]
        time.sleep(COMPARISON_SECONDS)
        began = time.monotonic()
        pika_connection(broker.url).close()
        assert time.monotonic() - began < DELAY_MS_MAX / 1000
        for raw in wrong:
            raw.close()


def test_a_fleet_with_one_password_pays_for_it_once() -> None:
    with Broker() as broker:
        broker.add_user("fleet", "secret")
        broker.set_permissions("fleet", "/")
        # Of this process, the broker's threads included: what else the machine does is not in it.
        began = time.process_time()
        with ThreadPoolExecutor(50) as threads:
            opened = list(
                threads.map(
                    lambda _: RawConnection(broker.host, broker.port).open("fleet", "secret", "/"),
                    range(400),
                )
            )
        # At 20 ms each it would be 8 s at least.
        assert time.process_time() - began < 7.0
        for connection in opened:
            connection.socket.close()


def test_a_guesser_over_http_is_told_to_come_later() -> None:
    with serving() as broker:
        broker.add_user("u", "secret", ("monitoring",))
        wrong = Pages(broker, ("u", "wrong"))
        with ThreadPoolExecutor(20) as threads:
            codes = Counter(threads.map(lambda _: wrong.get("/metrics").status_code, range(20)))
        assert set(codes) == {401, 429}
        assert codes[401] <= checked_at_most(2 * DELAY_MS_MAX / 1000)
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika_connection(broker.url_for("nobody", "wrong"))
