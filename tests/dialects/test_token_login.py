"""Logins with tokens, without a protocol: what a verdict leads to, and when it ends."""

from __future__ import annotations

import pytest

from penstock.broker.access.login_delay import FIRST_DELAY_MS
from penstock.broker.access.scopes import read_scopes
from penstock.broker.access.tokens import (
    NEVER_EXPIRES,
    TokenGrant,
    TokenVerdict,
    TokenVerifier,
)
from penstock.broker.errors import AccessRefused, NotAllowed
from penstock.broker.events import EventKind
from penstock.dialects.mechanisms import Anonymous, Plain
from penstock.wire.sasl import plain_response
from tests.dialects.test_login import NOW, Door

# What people's clocks show when `now` is zero.
OFFSET = 1_700_000_000_000


class SpokenTokens(TokenVerifier):
    """Tokens that say what they are: `token USER SCOPE EXPIRY`. Held by one test."""

    def is_token(self, password: bytes) -> bool:
        return password.startswith(b"token ")

    def verify(self, token: bytes, wall: int) -> TokenVerdict:
        words = token.decode().split()
        if len(words) != 4:
            return TokenVerdict(None, "nonsense")
        expires_at = int(words[3])
        if expires_at != NEVER_EXPIRES and expires_at <= wall:
            return TokenVerdict(None, "it has expired")
        return TokenVerdict(TokenGrant(words[1], (), read_scopes([words[2]]), expires_at))


def token(user: str = "ann", scope: str = "read:*/*", lasts_ms: int = NEVER_EXPIRES) -> bytes:
    expiry = lasts_ms if lasts_ms == NEVER_EXPIRES else OFFSET + NOW + lasts_ms
    return f"token {user} {scope} {expiry}".encode()


def token_door() -> Door:
    door = Door(is_loopback=False)
    door.state.set_wall_offset(OFFSET)
    door.container.token_verifier = SpokenTokens()
    return door


def knock(door: Door, said: bytes, user: str = "guest") -> None:
    door.login.begin(Plain(), plain_response(user, said.decode()), NOW)


def entered(said: bytes) -> Door:
    door = token_door()
    knock(door, said)
    door.login.open_vhost("/", "client")
    return door


def test_a_good_token_is_accepted_at_once_and_names_the_user() -> None:
    door = token_door()
    knock(door, token("ann"))
    assert (door.end.heard, door.transport.is_reading) == (["accepted"], True)
    assert door.login.user == "ann"
    assert door.checks.waiting == []


def test_a_bad_token_is_never_checked_as_a_password() -> None:
    door = token_door()
    knock(door, b"token nonsense")
    assert (door.checks.waiting, door.end.heard) == ([], [])
    door.state.timers.fire_due(NOW + FIRST_DELAY_MS)
    assert door.end.heard == ["refused"]
    refused = door.events.of(EventKind.LOGIN_REFUSED)
    assert (refused.reason, refused.facts["user"]) == ("nonsense", "guest")


def test_tokens_and_passwords_delay_one_another_in_neither_direction() -> None:
    door = token_door()
    host = door.peer.host
    delays = door.state.login_delays
    knock(door, b"token nonsense")
    assert delays.check_at("guest", host) == 0
    delays.failed("ann", host, NOW)
    again = token_door()
    again.state.login_delays.failed("ann", host, NOW)
    knock(again, token("ann"))
    assert again.end.heard == ["accepted"]
    # Or whoever has a token of that name could guess the password of the user without a delay.
    assert again.state.login_delays.check_at("ann", host) > NOW


def test_a_client_that_names_no_user_has_no_token() -> None:
    door = token_door()
    door.login.begin(Anonymous(), b"", NOW)
    assert len(door.checks.waiting) == 1


def test_a_token_gives_nothing_of_the_user_with_its_name() -> None:
    door = token_door()
    knock(door, token("guest", "read:other/*"))
    with pytest.raises(AccessRefused, match="access to vhost '/' refused for user 'guest'"):
        door.login.open_vhost("/", "client")


def test_the_rights_of_a_token_end_with_it() -> None:
    door = entered(token(lasts_ms=5_000))
    door.state.timers.fire_due(NOW + 4_999)
    assert door.end.heard == ["accepted"]
    door.state.timers.fire_due(NOW + 5_000)
    assert door.end.heard == ["accepted", "expired"]


def test_a_token_that_expires_before_the_open_opens_nothing() -> None:
    door = token_door()
    knock(door, token(lasts_ms=5))
    door.state.timers.fire_due(NOW + 5)
    assert door.end.heard == ["accepted"]
    with pytest.raises(AccessRefused, match="the token has expired"):
        door.login.open_vhost("/", "client")


def test_a_clock_that_is_set_back_does_not_end_a_token_early() -> None:
    door = entered(token(lasts_ms=5_000))
    door.state.set_wall_offset(OFFSET - 1_000)
    door.state.timers.fire_due(NOW + 5_000)
    assert door.end.heard == ["accepted"]
    door.state.timers.fire_due(NOW + 6_000)
    assert door.end.heard == ["accepted", "expired"]


def test_a_renewed_token_lasts_as_long_as_it_says() -> None:
    door = entered(token(lasts_ms=5_000))
    door.login.renew(token(lasts_ms=9_000), NOW + 1)
    door.state.timers.fire_due(NOW + 8_999)
    assert door.end.heard == ["accepted"]
    door.state.timers.fire_due(NOW + 9_000)
    assert door.end.heard == ["accepted", "expired"]


def test_a_renewed_token_may_have_no_end() -> None:
    door = entered(token(lasts_ms=5_000))
    door.login.renew(token(), NOW + 1)
    door.state.timers.fire_due(NOW + 10**9)
    assert door.end.heard == ["accepted"]


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (token("bob"), "it is a token of user 'bob'"),
        (token(scope="read:other/*"), "it gives no access to vhost '/'"),
        (token(lasts_ms=0), "it has expired"),
        (b"guest", "nonsense"),
    ],
)
def test_a_later_token_that_is_not_good_is_refused(later: bytes, reason: str) -> None:
    door = entered(token())
    with pytest.raises(NotAllowed, match="the new secret was refused"):
        door.login.renew(later, NOW + 1)
    denied = door.events.of(EventKind.ACCESS_DENIED)
    assert denied.reason == f"the new token was refused: {reason}"


def test_a_renewal_makes_kept_routes_stale() -> None:
    door = entered(token())
    principal = door.login.principal
    assert principal is not None
    before = principal.vhost.routing.generation
    door.login.renew(token(scope="write:*/*"), NOW)
    assert principal.vhost.routing.generation != before


def test_the_secret_of_a_password_is_not_looked_at() -> None:
    door = Door()
    door.knock()
    door.checks.answer(good=True)
    door.login.open_vhost("/", "client")
    door.container.token_verifier = SpokenTokens()
    door.login.renew(b"anything", NOW)
    assert door.end.heard == ["accepted"]


def test_who_has_gone_does_not_expire() -> None:
    door = entered(token(lasts_ms=5_000))
    door.login.end(NOW)
    door.state.timers.fire_due(NOW + 5_000)
    assert door.end.heard == ["accepted"]


def test_each_connection_with_a_token_has_rights_of_its_own() -> None:
    door = token_door()
    knock(door, token("guest", "read:*/a"))
    mine = door.login.open_vhost("/", "client")
    other = door.again()
    other.container.token_verifier = SpokenTokens()
    knock(other, token("guest", "read:*/b"))
    theirs = other.login.open_vhost("/", "client")
    assert mine is not theirs
    assert door.container.principals == {}
