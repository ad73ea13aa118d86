"""How a client logs in, whatever it speaks: a claim, its check, and the answer.

    the client's response -> `Mechanism.step`
        a challenge     `LoginListener.login_challenged`, then the client's next response
        a claim         the check of the password, elsewhere
        a verdict       the mechanism has checked it itself
    and then
        good            `login_accepted`, then `Login.open_vhost`
        wrong           a delay that grows with every failure (`LoginDelays`), then `login_refused`
        not looked at   because too many wait: `login_postponed`

The dialects carry responses and answers in their frames. Checking a password takes tens of
milliseconds, so it happens elsewhere: `LoginChecker` is the seam for that.

Invariants
- While a login is being checked, or its refusal waits, its connection is not read.
- A connection counts for its virtual host and its user from `open_vhost` until `end`, once; what
  channels it has then count no more.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.access.login_delay import DELAY_MS_MAX
from penstock.broker.access.users import (
    DEFAULT_USER,
    Verification,
    may_connect_from,
    why_refused,
)
from penstock.broker.errors import Refusal
from penstock.broker.events import EventKind
from penstock.broker.timers import Timer
from penstock.dialects.container import Container
from penstock.dialects.input_pause import LOGIN, InputPause
from penstock.dialects.login_checker import LoginWaiter
from penstock.dialects.mechanisms import (
    AMQPLAIN,
    ANONYMOUS,
    ANONYMOUS_REFUSED,
    EXTERNAL,
    NONCE_OCTETS,
    PLAIN,
    AmqPlain,
    Anonymous,
    Challenge,
    External,
    Mechanism,
    MechanismVerdict,
    Plain,
    ScramSha256,
)
from penstock.dialects.noting import Noting
from penstock.dialects.peer import Peer
from penstock.dialects.principal import Principal
from penstock.formats.scram_keys import SCRAM_SHA_256

# The log message for a login that was not checked.
TOO_MANY_LOGINS: Final = "too many logins are waiting to be checked"


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginListener:
    """Tells a dialect's client how its login goes and ends, in the dialect's frames."""

    def login_challenged(self, challenge: bytes, now: int) -> None:
        """The client has to answer; its response goes to `Login.respond`."""
        raise NotImplementedError

    def login_accepted(self, now: int) -> None:
        raise NotImplementedError

    def login_refused(self, now: int) -> None:
        """The delay after a failed login is over."""
        raise NotImplementedError

    def login_postponed(self, now: int) -> None:
        """Too many logins wait; the password was not checked."""
        raise NotImplementedError


class Login(LoginWaiter):
    """One connection's login. Held by the connection from its begin to its end."""

    def __init__(
        self,
        container: Container,
        peer: Peer,
        noting: Noting,
        input_pause: InputPause,
        listener: LoginListener,
    ) -> None:
        self._container: Container = container
        self._peer: Peer = peer
        self._noting: Noting = noting
        self._input_pause: InputPause = input_pause
        self._listener: LoginListener = listener
        # The mechanism that the client has chosen, and who it claims to be.
        self.mechanism_name: str = ""
        self._claimed: str = ""
        self._names_user: bool = True
        self._stepping: Mechanism | None = None
        # What proves to the client that we know its password too; empty for most mechanisms.
        self.server_final: bytes = b""
        # Who it is; empty until the login is accepted.
        self.user: str = ""
        # What it may do; None until it has opened a virtual host.
        self.principal: Principal | None = None
        # Those that are open and counted for the user.
        self._channel_count: int = 0
        self._is_ended: bool = False

    def begin(self, mechanism: Mechanism, response: bytes, now: int) -> None:
        """The client has chosen a mechanism. Raises `Malformed` for a response that is not valid
        for that mechanism.
        """
        self.mechanism_name = mechanism.name
        self._names_user = mechanism.names_user
        self._stepping = mechanism
        self.respond(response, now)

    def respond(self, response: bytes, now: int) -> None:
        """The client has said its first word, or has answered a challenge."""
        mechanism = self._stepping
        assert mechanism is not None, "a login begins before it goes on"
        result = mechanism.step(response)
        self._claimed = result.user
        if isinstance(result, Challenge):
            self._listener.login_challenged(result.octets, now)
            return
        self._stepping = None
        if isinstance(result, MechanismVerdict):
            self.judge(result, now, now)
            return
        state = self._container.state
        if mechanism.names_user:
            verification = state.begin_login(result.user, result.password, self._peer.host, now)
        else:
            # This is not a wrong password: it must not delay others who log in as this user.
            verification = state.users.verifier(result.user, result.password, True)
            verification.asked_at = now
        if verification.remembered:
            self.login_checked(verification, now)
            return
        self._input_pause.pause(LOGIN)
        self._container.login_checker.check(verification, self)

    def judge(self, verdict: MechanismVerdict, asked_at: int, now: int) -> None:
        """A mechanism has decided by itself. While the answer to a failure of the same user and host
        waits, nothing is told, as with passwords: one that is right would be answered at once, so
        silence would tell that a guess was wrong. As there, one look in a while is free.
        """
        if self._is_ended:
            return
        state = self._container.state
        host = self._peer.host
        delays = state.login_delays
        user = state.users.find(verdict.user)
        reason = verdict.reason or why_refused(user, True, self._peer.is_loopback)
        due = delays.check_at(verdict.user, host)
        if due > now:
            give_up_at = asked_at + DELAY_MS_MAX
            if now >= give_up_at:
                # Heard before the handshake's time is over, and whatever the verdict is.
                self.login_not_checked(now)
                return
            is_free = delays.may_compare(verdict.user, host, now)
            if is_free and reason:
                delays.mismatched(verdict.user, host, now)
            if reason or not is_free:
                self._input_pause.pause(LOGIN)
                state.timers.schedule(Judgement(self, verdict, asked_at), min(due, give_up_at))
                return
        if reason:
            self._refuse_later(verdict.user, reason, asked_at, now)
            return
        self.server_final = verdict.server_final
        self._accept(verdict.user, now)

    def offered(self) -> list[str]:
        """The mechanisms that this client can choose, in the listener's order."""
        return [name for name in self._peer.mechanisms if self._is_offered(name)]

    def _is_offered(self, name: str) -> bool:
        if name == EXTERNAL:
            return bool(self._peer.certificate_name)
        if name == ANONYMOUS:
            return self.allows_anonymous()
        return True

    def allows_anonymous(self) -> bool:
        """Whether clients that name no user are the default user here."""
        user = self._container.state.users.find(DEFAULT_USER)
        return (
            ANONYMOUS in self._peer.mechanisms
            and user is not None
            and may_connect_from(user, self._peer.is_loopback)
            and user.password_hash != self._container.anonymous_refused_hash
        )

    def mechanism(self, name: str) -> Mechanism | None:
        """The mechanism of that name, for this login; None for one that is not offered."""
        if name not in self.offered():
            return None
        if name == PLAIN:
            return Plain()
        if name == AMQPLAIN:
            return AmqPlain()
        if name == EXTERNAL:
            return External(self._peer.certificate_name)
        if name == ANONYMOUS:
            return Anonymous()
        assert name == SCRAM_SHA_256, "every other mechanism was asked for above"
        nonce = self._container.entropy.octets(NONCE_OCTETS).hex()
        return ScramSha256(self._container.state.users, nonce)

    def open_vhost(self, name: str, client_name: str) -> Principal:
        """The client names its virtual host after the login. Raises a refusal if it may not open
        it. `client_name` is the client's name for its connection or container.
        """
        counts = self._container.connection_counts
        count = counts.get(name, 0)
        user_counts = self._container.user_connection_counts
        user_count = user_counts.get(self.user, 0)
        try:
            vhost, access = self._container.state.open_vhost(name, self.user, count, user_count)
        except Refusal as refusal:
            self._noting.warn(EventKind.ACCESS_DENIED, refusal.text, {"vhost": name})
            raise
        counts[name] = count + 1
        user_counts[self.user] = user_count + 1
        principal = self._container.principal(self.user, vhost, access)
        self.principal = principal
        self._noting.opened(principal, client_name)
        return principal

    def end(self, now: int) -> None:
        """The connection has ended and requeued what it held: its exclusive queues are deleted."""
        self._is_ended = True
        principal = self.principal
        if principal is not None:
            counts = self._container.connection_counts
            counts[principal.vhost.name] = counts.get(principal.vhost.name, 1) - 1
            user_counts = self._container.user_connection_counts
            user_counts[self.user] = user_counts.get(self.user, 1) - 1
            self._add_channels(-self._channel_count)
            self._container.state.connection_ended(self._peer.number, now)

    def open_channel(self) -> None:
        """A channel, or a session, begins. Raises a refusal when the user may have no more."""
        count = self._container.user_channel_counts.get(self.user, 0)
        self._container.state.check_channel_count(self.user, count)
        self._add_channels(1)

    def channel_ended(self) -> None:
        self._add_channels(-1)

    def _add_channels(self, count: int) -> None:
        counts = self._container.user_channel_counts
        counts[self.user] = counts.get(self.user, 0) + count
        self._channel_count += count

    # Calls from the checker.

    def login_checked(self, verification: Verification, now: int) -> None:
        if self._is_ended:
            return
        state = self._container.state
        peer = self._peer
        name = verification.name
        user = state.users.find(name)
        good = state.users.settle(verification)
        if not good or user is None or not may_connect_from(user, peer.is_loopback):
            if not self._names_user:
                self._refuse_anonymous(verification, now)
                return
            reason = why_refused(user, good, peer.is_loopback)
            self._refuse_later(name, reason, verification.asked_at, now)
            return
        self._accept(name, now)

    def _accept(self, name: str, now: int) -> None:
        if self._names_user:
            self._container.state.login_delays.succeeded(name, self._peer.host)
        self.user = name
        self._noting.login_accepted(name, self.mechanism_name)
        self._input_pause.resume(LOGIN)
        self._listener.login_accepted(now)

    def _refuse_later(self, name: str, reason: str, asked_at: int, now: int) -> None:
        """After the delay that failed logins of this user and host have come to."""
        self._noting.login_refused(name, reason)
        self._input_pause.pause(LOGIN)
        state = self._container.state
        delay = state.login_delays.failed(name, self._peer.host, now, now - asked_at)
        state.timers.schedule(LoginRefusal(self, self._peer.number), now + delay)

    def _refuse_anonymous(self, verification: Verification, now: int) -> None:
        if not verification.good:
            # It is offered again when the user has another password.
            self._container.anonymous_refused_hash = verification.password_hash
        self._noting.login_refused(verification.name, ANONYMOUS_REFUSED)
        self._input_pause.resume(LOGIN)
        self._listener.login_refused(now)

    def login_not_checked(self, now: int) -> None:
        if self._is_ended:
            return
        self._noting.login_refused(self._claimed, TOO_MANY_LOGINS)
        self._input_pause.resume(LOGIN)
        self._listener.login_postponed(now)

    def refuse(self, now: int) -> None:
        if self._is_ended:
            return
        self._input_pause.resume(LOGIN)
        self._listener.login_refused(now)

    def is_gone(self) -> bool:
        return self._is_ended or self._peer.outgoing.transport.has_hung_up()

    def drop(self) -> None:
        self._peer.outgoing.transport.abort()

    def peer_host(self) -> str:
        return self._peer.host

    def connection_number(self) -> int:
        return self._peer.number


class LoginRefusal(Timer):
    """A failed login that waits for its answer."""

    def __init__(self, login: Login, connection_number: int) -> None:
        super().__init__()
        self.connection = connection_number
        self._login: Login = login

    def fire(self, now: int) -> None:
        self._login.refuse(now)


class Judgement(Timer):
    """A verdict that waits until failures of the same user and host allow it."""

    def __init__(self, login: Login, verdict: MechanismVerdict, asked_at: int) -> None:
        super().__init__()
        self.connection = login.connection_number()
        self._login: Login = login
        self._verdict: MechanismVerdict = verdict
        self._asked_at: int = asked_at

    def fire(self, now: int) -> None:
        self._login.judge(self._verdict, self._asked_at, now)
