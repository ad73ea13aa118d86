"""Whose password is checked next."""

from penstock.broker.access.login_delay import LoginDelays
from penstock.broker.access.users import Verification
from penstock.dialects.login_checker import LoginWaiter
from penstock.server.login_queue import PATIENCE_MS, WAITING_MAX, LoginQueue, WaitingLogin


class QueuedPeer(LoginWaiter):
    def __init__(self, host: str) -> None:
        self.host = host
        self.hung_up = False

    def peer_host(self) -> str:
        return self.host

    def is_gone(self) -> bool:
        return self.hung_up


class Line:
    """A queue, and failures of the past. Held by one test."""

    def __init__(self) -> None:
        self.queue = LoginQueue()
        self.delays = LoginDelays()

    def add(self, host: str, user: str, now: int = 0) -> list[WaitingLogin]:
        verification = Verification(user, b"", "", remembered=False)
        verification.asked_at = now
        return self.queue.add(WaitingLogin(verification, QueuedPeer(host)))

    def next(self, now: int = 0) -> str:
        """Host and user; empty when it is nobody's turn."""
        login = self.queue.next(self.delays, now)
        return "" if login is None else shown(login)

    def rest(self, now: int = 0) -> list[str]:
        return list(iter(lambda: self.next(now), ""))


def shown(login: WaitingLogin) -> str:
    return f"{login.waiter.peer_host()} {login.verification.name}"


def test_hosts_take_turns_and_so_do_the_users_of_one_host() -> None:
    line = Line()
    for _ in range(3):
        line.add("busy", "a")
    line.add("busy", "b")
    line.add("quiet", "c")
    assert line.rest() == ["busy a", "quiet c", "busy b", "busy a", "busy a"]
    assert len(line.queue) == 0


def test_logins_of_one_user_and_host_are_checked_in_the_order_in_which_they_came() -> None:
    line = Line()
    for now in (1, 2, 3):
        line.add("h", "u", now)
    found = [line.queue.next(line.delays, 9) for _ in range(3)]
    assert [login.verification.asked_at for login in found if login is not None] == [1, 2, 3]


def test_a_pair_that_has_failed_waits_and_others_do_not() -> None:
    line = Line()
    line.add("h", "wrong")
    line.add("h", "right")
    line.add("elsewhere", "wrong")
    delay = line.delays.failed("wrong", "h", 0)
    assert line.rest(delay - 1) == ["h right", "elsewhere wrong"]
    assert line.rest(delay) == ["h wrong"]


def test_no_login_waits_for_ever() -> None:
    line = Line()
    line.add("h", "u", 0)
    line.add("h", "u", 1)
    assert line.queue.take_overdue(PATIENCE_MS - 1) == []
    assert len(line.queue.take_overdue(PATIENCE_MS)) == 1
    assert len(line.queue) == 1


def test_at_the_limit_the_host_with_the_most_logins_loses_its_newest() -> None:
    line = Line()
    line.add("quiet", "u")
    for number in range(WAITING_MAX - 1):
        assert line.add("busy", "u", number) == []
    (lost,) = line.add("busy", "u", WAITING_MAX)
    assert (shown(lost), lost.verification.asked_at) == ("busy u", WAITING_MAX)
    (lost,) = line.add("new", "u")
    assert shown(lost) == "busy u"
    assert len(line.queue) == WAITING_MAX
    assert [line.next(), line.next(), line.next()] == ["quiet u", "busy u", "new u"]


def test_at_the_limit_those_that_have_hung_up_go_first() -> None:
    line = Line()
    peers = []
    for _ in range(WAITING_MAX):
        peer = QueuedPeer("h")
        peers.append(peer)
        line.queue.add(WaitingLogin(Verification("u", b"", "", remembered=False), peer))
    for peer in peers[10:]:
        peer.hung_up = True
    removed = line.add("h", "u")
    assert len(removed) == WAITING_MAX - 10
    assert all(login.waiter.is_gone() for login in removed)
    assert len(line.queue) == 11
