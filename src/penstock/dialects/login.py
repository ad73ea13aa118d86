"""How a client logs in, whatever it speaks: a claim, its check, and the answer.

    the client's response -> `Mechanism.step`
        a challenge     `LoginListener.login_challenged`, then the client's next response
        a claim         the check of the password, elsewhere; of a token, here (`TokenVerifier`)
        a verdict       the mechanism has checked it itself
    and then
        good            `login_accepted`, then `Login.open_vhost`
        wrong           a delay that grows with every failure (`LoginDelays`), then `login_refused`
        not looked at   because too many wait, or no users came in time: `login_postponed`

The dialects carry responses and answers in their frames. Checking a password takes tens of
milliseconds, so it happens elsewhere: `LoginChecker` is the seam for that.

Invariants
- While a login is being checked, or its refusal waits, its connection is not read.
- A token's rights end when it expires: the connection is closed then, unless the client has renewed it.
- A connection counts for its virtual host and its user from `open_vhost` until `end`, once; what
  channels it has then count no more.
"""

from typing import Final

from penstock.broker.access.login_delay import DELAY_MS_MAX
from penstock.broker.access.tokens import (
    FAILED_TOKENS,
    NEVER_EXPIRES,
    TokenAccess,
    TokenGrant,
    TokenVerdict,
)
from penstock.broker.access.users import (
    DEFAULT_USER,
    User,
    Verification,
    may_connect_from,
    why_refused,
)
from penstock.broker.errors import AccessRefused, NotAllowed, Refusal
from penstock.broker.events import EventKind
from penstock.dialects.admission import NO_ROOT
from penstock.dialects.container import Container
from penstock.dialects.input_pause import LOGIN, InputPause
from penstock.dialects.login_counts import LoginCounts
from penstock.dialects.login_listener import LOGIN_EXPIRED, LoginListener
from penstock.dialects.login_timers import (
    HELD_LOGIN_MS,
    HeldLogin,
    Judgement,
    LoginRefusal,
    TimedLogin,
    TokenExpiry,
)
from penstock.dialects.mechanisms import (
    AMQPLAIN,
    ANONYMOUS,
    ANONYMOUS_REFUSED,
    EXTERNAL,
    NONCE_OCTETS,
    PEER_USER,
    PLAIN,
    RESERVED,
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
from penstock.dialects.peers import Peers
from penstock.dialects.principal import Principal
from penstock.formats.scram_keys import SCRAM_SHA_256

# The log message for a login that was not checked.
NO_PLACE: Final = "the limit of connections is reached; try again later, or try another server"
TOO_MANY_LOGINS: Final = "too many logins are waiting to be checked; try again later"
# In the first message of SCRAM, where a server says who it is.
_PEER_CLAIM: Final = f"n={PEER_USER},".encode()


class Login(TimedLogin):
    """One connection's login. Held by the connection from its begin to its end."""

    def __init__(
        self,
        container: Container,
        peer: Peer,
        noting: Noting,
        input_pause: InputPause,
        listener: LoginListener,
        counts: LoginCounts,
        peers: Peers | None = None,
    ) -> None:
        """`peers` are the servers that may log in here; None where no server may."""
        # Of all connections of the dialect.
        self._counts: LoginCounts = counts
        self._container: Container = container
        self._peer: Peer = peer
        self._noting: Noting = noting
        self._input_pause: InputPause = input_pause
        self._listener: LoginListener = listener
        self._peers: Peers | None = peers
        # Whether a server of this cluster has logged in.
        self.is_peer: bool = False
        # Why one was refused; it is told the reason, which a client is not.
        self.peer_reason: str = ""
        # Why the password was not checked; the client may try again.
        self.postponed_reason: str = ""
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
        # Of the token with which it has logged in, if it was one, and what ends that.
        self._grant: TokenGrant | None = None
        self._expiry: TokenExpiry | None = None
        self._has_expired: bool = False
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
        if self._peer.is_surplus and not self._may_be_peer(response):
            self._postpone(NO_PLACE, now)
            return
        if self._waits_for_users() and not self._may_be_peer(response):
            self._input_pause.pause(LOGIN)
            self._listener.login_withheld(True)
            timers = self._container.state.timers
            held = HeldLogin(self, response, timers, now + self._container.admission.pause_ms())
            timers.schedule(held, now + HELD_LOGIN_MS)
            return
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
        verifier = self._container.token_verifier
        if mechanism.names_user and verifier is not None and verifier.is_token(result.password):
            self._judge_token(verifier.verify(result.password, state.wall.at(now)), now)
            return
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

    def _waits_for_users(self) -> bool:
        """Whether this server has heard of no users yet: they come from the cluster's first root."""
        return self._container.admission.is_clustered and self._container.state.users.is_empty()

    def _may_be_peer(self, response: bytes) -> bool:
        """Servers do not wait: without them there is no root. A client that claims to be one cannot
        prove it.
        """
        is_scram = self.mechanism_name == SCRAM_SHA_256
        return is_scram and (self._claimed == PEER_USER or _PEER_CLAIM in response)

    def respond_again(self, response: bytes, now: int) -> bool:
        """Whether a login that was held goes on now, or has ended."""
        if self._is_ended:
            return True
        if self._waits_for_users():
            return False
        self._input_pause.resume(LOGIN)
        self._listener.login_withheld(False)
        self.respond(response, now)
        return True

    def give_up(self, now: int) -> None:
        self._listener.login_withheld(False)
        self._postpone(NO_ROOT, now)

    def judge(self, verdict: MechanismVerdict, asked_at: int, now: int) -> None:
        """A mechanism has decided by itself. While the answer to a failure of the same user and host
        waits, nothing is told, as with passwords: one that is right would be answered at once, so
        silence would tell that a guess was wrong. As there, one look in a while is free.
        """
        if self._is_ended:
            return
        if verdict.is_peer:
            self._judge_peer(verdict, now)
            return
        state = self._container.state
        host = self._peer.host
        delays = state.login_delays
        user = state.users.find(verdict.user)
        reason = verdict.reason or self._why_refused(verdict.user, user, True)
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

    def _judge_token(self, verdict: TokenVerdict, now: int) -> None:
        """A good token is accepted at once, whatever failures of its host wait for their answers:
        nobody can guess one, so silence tells nothing.
        """
        grant = verdict.grant
        if grant is None:
            self._refuse_later(FAILED_TOKENS, verdict.reason, now, now, self._claimed)
            return
        self._grant = grant
        self._expire_with(grant, now)
        self._accept(grant.user, now)

    def _expire_with(self, grant: TokenGrant, now: int) -> None:
        state = self._container.state
        if self._expiry is not None:
            state.timers.cancel(self._expiry)
        if grant.expires_at != NEVER_EXPIRES:
            self._expiry = TokenExpiry(self)
            state.timers.schedule(self._expiry, max(now, grant.expires_at - state.wall.offset_ms))

    def token_due(self, now: int) -> None:
        """The token expires about now."""
        grant = self._grant
        if self._is_ended or grant is None:
            return
        if not grant.has_expired(self._container.state.wall.at(now)):
            # The wall clock was set back meanwhile.
            self._expire_with(grant, now)
            return
        self._has_expired = True
        if self.principal is not None:
            self._listener.login_expired(now)

    def renew(self, secret: bytes, now: int) -> None:
        """The client has a later token. Raises `NotAllowed` if that is not good, or gives no access to
        the virtual host; the connection cannot go on then. A password does not expire, and is not
        looked at.
        """
        principal = self.principal
        verifier = self._container.token_verifier
        if self._grant is None or verifier is None or principal is None:
            return
        verdict = verifier.verify(secret, self._container.state.wall.at(now))
        grant, reason = verdict.grant, verdict.reason
        later: TokenAccess | None = None
        if grant is not None:
            later = grant.access(principal.vhost.name)
            if grant.user != self.user:
                reason = f"it is a token of user '{grant.user}'"
            elif later is None:
                reason = f"it gives no access to vhost '{principal.vhost.name}'"
        if grant is None or later is None or reason:
            self._noting.warn(EventKind.ACCESS_DENIED, f"the new token was refused: {reason}", {})
            raise NotAllowed("the new secret was refused. For details see the broker logfile.")
        access = principal.access
        assert isinstance(access, TokenAccess), "the token was accepted for this virtual host"
        access.renew(later)
        # A dialect keeps a route together with the permission to use it.
        principal.vhost.routing.changed()
        self._grant = grant
        self._expire_with(grant, now)

    def _judge_peer(self, verdict: MechanismVerdict, now: int) -> None:
        """Without the delays after failures: a server with a wrong key must not keep others out that
        connect from the same host, and nobody guesses a key.
        """
        peers = self._peers
        assert peers is not None, "asked for its keys before"
        reason = verdict.reason or peers.why_refused(self._peer) or self._container.why_no_peer()
        if reason:
            self._noting.login_refused(verdict.user, reason)
            self.peer_reason = reason
            self._listener.login_refused(now)
            return
        self.is_peer = True
        self._container.peer_count += 1
        self.server_final = verdict.server_final
        self._accept(verdict.user, now)

    def _why_refused(self, name: str, user: User | None, is_good: bool) -> str:
        if name == PEER_USER and self._container.peers is not None:
            return RESERVED
        return why_refused(user, is_good, self._peer.is_loopback)

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
        if self._waits_for_users():
            return ANONYMOUS in self._peer.mechanisms
        return (
            ANONYMOUS in self._peer.mechanisms
            and user is not None
            and may_connect_from(user, self._peer.is_loopback)
            and user.password_hash != self._container.anonymous_refused_hash
        )

    def mechanism(self, name: str) -> Mechanism | None:
        """The mechanism of that name, for this login; None for one that is not offered."""
        is_offered = name in self.offered()
        if not is_offered and (self._peers is None or name != SCRAM_SHA_256):
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
        peer_keys = None if self._peers is None else self._peers.keys()
        return ScramSha256(self._container.state.users, nonce, peer_keys, is_offered)

    def open_vhost(self, name: str, client_name: str) -> Principal:
        """The client names its virtual host after the login. Raises a refusal if it may not open
        it. `client_name` is the client's name for its connection or container.
        """
        counts = self._container.connection_counts
        count = counts.get(name, 0)
        user_counts = self._container.user_connection_counts
        user_count = user_counts.get(self.user, 0)
        try:
            if self._has_expired:
                raise AccessRefused(LOGIN_EXPIRED)
            vhost, access = self._container.state.open_vhost(
                name, self.user, count, user_count, self._grant
            )
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
        """The connection has ended and requeued what it held: its exclusive queues are deleted. Once."""
        self._is_ended = True
        self._container.peer_count -= self.is_peer
        if self._expiry is not None:
            self._container.state.timers.cancel(self._expiry)
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
        is_reserved = name == PEER_USER and self._container.peers is not None
        may_connect = user is not None and may_connect_from(user, peer.is_loopback)
        if not good or not may_connect or is_reserved:
            if not self._names_user:
                self._refuse_anonymous(verification, now)
                return
            reason = self._why_refused(name, user, good)
            self._refuse_later(name, reason, verification.asked_at, now)
            return
        self._accept(name, now)

    def _accept(self, name: str, now: int) -> None:
        if self._names_user and self._grant is None:
            # A token says nothing about who knows the password of a user with the same name.
            self._container.state.login_delays.succeeded(name, self._peer.host)
        self.user = name
        self._counts.succeeded += 1
        self._noting.login_accepted(name, self.mechanism_name)
        self._input_pause.resume(LOGIN)
        self._listener.login_accepted(now)

    def _refuse_later(
        self, name: str, reason: str, asked_at: int, now: int, shown_name: str = ""
    ) -> None:
        """After the delay that failed logins of this user and host have come to. `shown_name` is for
        the log, if it is not the one that is counted.
        """
        self._counts.failed += 1
        self._noting.login_refused(shown_name if name == FAILED_TOKENS else name, reason)
        self._input_pause.pause(LOGIN)
        state = self._container.state
        delay = state.login_delays.failed(name, self._peer.host, now, now - asked_at)
        state.timers.schedule(LoginRefusal(self, self._peer.number), now + delay)

    def _refuse_anonymous(self, verification: Verification, now: int) -> None:
        if not verification.good:
            # It is offered again when the user has another password.
            self._container.anonymous_refused_hash = verification.password_hash
        self._counts.failed += 1
        self._noting.login_refused(verification.name, ANONYMOUS_REFUSED)
        self._input_pause.resume(LOGIN)
        self._listener.login_refused(now)

    def login_not_checked(self, now: int) -> None:
        if self._is_ended:
            return
        self._postpone(TOO_MANY_LOGINS, now)

    def _postpone(self, reason: str, now: int) -> None:
        self.postponed_reason = reason
        self._noting.login_refused(self._claimed, reason)
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
