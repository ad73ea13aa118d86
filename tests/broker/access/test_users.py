import base64
import hashlib

import pytest

from penstock.broker.access.users import (
    DECOY_HASH,
    DEFAULT_USER_HASH,
    PASSWORD_OCTETS_MAX,
    SHA256_PREFIX,
    SHA512_PREFIX,
    User,
    Users,
    Verification,
    hash_password,
    loopback_refusal,
    may_connect_from,
    verify_password,
)
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.topology import PutUser
from tests.broker.doubles import CountingEntropy

GUEST = PutUser("guest", DEFAULT_USER_HASH)


def users_with(*commands: PutUser) -> Users:
    users = Users(CountingEntropy())
    for command in commands:
        users.put(command)
    return users


def logs_in(users: Users, name: str, password: bytes) -> bool:
    verification = users.verifier(name, password)
    verification.run()
    return users.settle(verification)


def test_a_password_opens_its_own_user_only() -> None:
    hashed = hash_password(b"secret", CountingEntropy())
    users = users_with(GUEST, PutUser("u", hashed))
    assert logs_in(users, "guest", b"guest")
    assert logs_in(users, "u", b"secret")
    assert not logs_in(users, "u", b"guest")
    assert not logs_in(users, "u", b"")
    assert not logs_in(users, "nobody", b"guest")


def test_salts_come_from_entropy() -> None:
    entropy = CountingEntropy()
    one, other = hash_password(b"same", entropy), hash_password(b"same", entropy)
    assert one != other
    assert one == hash_password(b"same", CountingEntropy())
    assert one.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_a_good_password_is_remembered_and_a_wrong_one_never() -> None:
    users = users_with(GUEST)
    first = users.verifier("guest", b"guest")
    assert not first.remembered
    first.run()
    assert users.settle(first)
    assert users.verifier("guest", b"guest").remembered
    wrong = users.verifier("guest", b"wrong")
    assert not wrong.remembered
    assert not wrong.run()
    assert not users.settle(wrong)
    assert users.verifier("guest", b"guest").remembered


def test_a_changed_password_is_forgotten() -> None:
    users = users_with(GUEST)
    assert logs_in(users, "guest", b"guest")
    users.put(PutUser("guest", hash_password(b"new", CountingEntropy())))
    assert not users.verifier("guest", b"guest").remembered
    assert not logs_in(users, "guest", b"guest")


def test_a_password_changed_while_it_was_checked_does_not_count() -> None:
    users = users_with(GUEST)
    verification = users.verifier("guest", b"guest")
    assert verification.run()
    users.put(PutUser("guest", hash_password(b"new", CountingEntropy())))
    assert not users.settle(verification)
    users.remove("guest")
    assert not users.settle(verification)


def test_unknown_users_and_users_without_password_are_checked_against_a_decoy() -> None:
    """Both cost what a wrong password costs, because they run the same argon2 parameters."""
    users = users_with(PutUser("locked", ""))
    for name in ("nobody", "locked"):
        verification = users.verifier(name, b"guest")
        assert not verification.remembered
        assert verification.password_hash == ""
        assert not verification.run()
    assert DECOY_HASH.split("$")[:4] == DEFAULT_USER_HASH.split("$")[:4]


def test_a_verification_is_settled_only_after_it_ran() -> None:
    users = users_with(GUEST)
    assert not users.settle(users.verifier("guest", b"guest"))


def test_a_password_too_long_opens_nothing() -> None:
    users = users_with(GUEST)
    assert not logs_in(users, "guest", b"g" * (PASSWORD_OCTETS_MAX + 1))
    with pytest.raises(PreconditionFailed):
        hash_password(b"g" * (PASSWORD_OCTETS_MAX + 1), CountingEntropy())
    with pytest.raises(PreconditionFailed):
        hash_password(b"", CountingEntropy())


@pytest.mark.parametrize("text", ["guest", "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA", "$"])
def test_only_argon2id_hashes_are_taken(text: str) -> None:
    with pytest.raises(PreconditionFailed):
        users_with(PutUser("u", text))


def test_a_damaged_hash_is_a_wrong_password() -> None:
    damaged = "$argon2id$v=19$m=1,t=0,p=0$c2FsdA$aGFzaA"
    assert not verify_password(damaged, b"guest")


def test_names_have_limits_and_unknown_ones_cannot_be_removed() -> None:
    for name in ("", "n" * 256):
        with pytest.raises(PreconditionFailed):
            users_with(PutUser(name, ""))
    with pytest.raises(NotFound):
        users_with().remove("nobody")


def test_a_loopback_only_user_is_kept_out_elsewhere() -> None:
    guest = User(PutUser("guest", "", loopback_only=True))
    assert may_connect_from(guest, peer_is_loopback=True)
    assert not may_connect_from(guest, peer_is_loopback=False)
    assert may_connect_from(User(PutUser("u", "")), peer_is_loopback=False)
    assert loopback_refusal("guest") == "user 'guest' can only connect via localhost"


def test_a_remembered_verification_does_not_hash_again() -> None:
    """A hash that would fail shows that it is not looked at."""
    assert Verification("u", b"p", DECOY_HASH, remembered=True).run()


def rabbitmq_hash(prefix: str, algorithm: str, password: bytes) -> str:
    salt = b"\x01\x02\x03\xff"
    octets = salt + hashlib.new(algorithm, salt + password).digest()
    return prefix + base64.b64encode(octets).decode()


@pytest.mark.parametrize(
    ("prefix", "algorithm"), [(SHA256_PREFIX, "sha256"), (SHA512_PREFIX, "sha512")]
)
def test_salted_hashes_of_rabbitmq_open_their_users_and_are_remembered(
    prefix: str, algorithm: str
) -> None:
    users = users_with(PutUser("u", rabbitmq_hash(prefix, algorithm, b"secret")))
    assert not logs_in(users, "u", b"Secret")
    assert not logs_in(users, "u", b"")
    assert logs_in(users, "u", b"secret")
    assert users.verifier("u", b"secret").remembered


@pytest.mark.parametrize(
    "text",
    [
        SHA256_PREFIX,
        SHA256_PREFIX + "not base64",
        rabbitmq_hash(SHA256_PREFIX, "sha512", b"x"),
        rabbitmq_hash(SHA512_PREFIX, "sha256", b"x"),
    ],
)
def test_a_salted_hash_of_another_form_is_refused_and_opens_nothing(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="bytes of salt"):
        users_with(PutUser("u", text))
    assert not verify_password(text, b"x")
