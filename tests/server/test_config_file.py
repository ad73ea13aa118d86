"""Every key of the configuration file: where its value goes, and what is said about a wrong one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from penstock.server.config_file import ConfigurationError, read_configuration
from penstock.server.config_model import ConfigurationFile
from penstock.server.server_configuration import ServerConfiguration

INTEGER_MAX = 2**63 - 1

Reader = Callable[[ServerConfiguration], object]

NUMBERS: dict[str, tuple[int, int, int, Reader]] = {
    # Key: a value, the smallest and the largest there are, and where it is found.
    "listen.port": (1234, 0, 65_535, lambda read: read.port),
    "tls.port": (31, 0, 65_535, lambda read: read.tls.port),
    "limits.connections": (7, 1, INTEGER_MAX, lambda read: read.connections_max),
    "limits.channels_per_connection": (9, 1, 65_535, lambda read: read.limits.channel_max),
    "limits.frame_bytes": (8192, 4096, 16 << 20, lambda read: read.limits.frame_max),
    "limits.message_bytes": (11, 1, INTEGER_MAX, lambda read: read.limits.message_bytes_max),
    "limits.heartbeat_seconds": (13, 0, 65_535, lambda read: read.limits.heartbeat_seconds),
    "limits.handshake_seconds": (17, 1, 3600, lambda read: read.limits.handshake_ms // 1000),
    "memory.publishers_wait_above_bytes": (
        19,
        0,
        INTEGER_MAX,
        lambda read: read.memory_bytes_max,
    ),
    "http.port": (29, 0, 65_535, lambda read: read.http.port),
    "cluster.timing_percent": (31, 10, 10_000, lambda read: read.cluster.timing_percent),
    "cluster.pause_seconds": (37, 1, 3600, lambda read: read.cluster.pause_seconds),
    "data.publishers_wait_below_bytes": (23, 0, INTEGER_MAX, lambda read: read.disk_bytes_min),
}
TEXTS: dict[str, Reader] = {
    "data.directory": lambda read: read.data,
    "definitions.file": lambda read: read.definitions,
    "http.tls_certificate": lambda read: read.http.certificate,
    "http.tls_key": lambda read: read.http.key,
    "http.tls_client_ca": lambda read: read.http.client_authorities,
    "http.tls_client_crl": lambda read: read.http.client_revocations,
    "oauth2.jwks_file": lambda read: read.tokens.jwks_file,
    "tls.certificate": lambda read: read.tls.certificate,
    "tls.key": lambda read: read.tls.key,
    "tls.client_ca": lambda read: read.tls.client_authorities,
    "tls.client_crl": lambda read: read.tls.client_revocations,
    "cluster.tls_certificate": lambda read: read.cluster.tls.certificate,
    "cluster.tls_key": lambda read: read.cluster.tls.key,
    "cluster.tls_ca": lambda read: read.cluster.tls.authorities,
}
HOSTS: dict[str, Reader] = {
    "listen.host": lambda read: read.hosts,
    "http.host": lambda read: read.http.hosts,
    "tls.host": lambda read: read.tls.hosts,
}
PATHS = (
    "data.directory",
    "definitions.file",
    "http.tls_certificate",
    "http.tls_key",
    "http.tls_client_ca",
    "http.tls_client_crl",
    "oauth2.jwks_file",
    "tls.certificate",
    "tls.key",
    "tls.client_ca",
    "tls.client_crl",
    "cluster.tls_certificate",
    "cluster.tls_key",
    "cluster.tls_ca",
)
OTHERS: dict[str, tuple[str, object, Reader]] = {
    # Key: a value as it is written, as it is found, and where.
    "listen.plain": ("false", False, lambda read: read.plain),
    "tls.client_certificate": (
        '"optional"',
        "optional",
        lambda read: read.tls.client_certificate,
    ),
    "tls.login_from": (
        '"distinguished_name"',
        "distinguished_name",
        lambda read: read.tls.login_from,
    ),
    "tls.minimum_version": ('"1.3"', "1.3", lambda read: read.tls.minimum_version),
    "http.tls_minimum_version": ('"1.3"', "1.3", lambda read: read.http.minimum_version),
    "tls.ciphers": ('"ECDHE+AESGCM"', "ECDHE+AESGCM", lambda read: read.tls.ciphers),
    "data.ledger": ("true", True, lambda read: read.ledger),
    "login.anonymous": ('"never"', "never", lambda read: read.anonymous),
    "login.scram_keys": ("false", False, lambda read: read.stores_scram_keys),
    "oauth2.resource_server_id": ('"a"', "a", lambda read: read.tokens.resource_server_id),
    "oauth2.issuer": ('"a"', "a", lambda read: read.tokens.issuer),
    "oauth2.signing_keys": (
        '["a=/b"]',
        (("a", Path("/b")),),
        lambda read: read.tokens.signing_keys,
    ),
    "oauth2.default_key": ('"a"', "a", lambda read: read.tokens.default_key),
    "oauth2.algorithms": ('["HS256"]', ("HS256",), lambda read: read.tokens.algorithms),
    "oauth2.verify_aud": ("false", False, lambda read: read.tokens.verify_aud),
    "oauth2.scope_prefix": ('"a"', "a", lambda read: read.tokens.scope_prefix),
    "oauth2.additional_scopes_key": (
        '"a.b c"',
        "a.b c",
        lambda read: read.tokens.additional_scopes_key,
    ),
    "oauth2.preferred_username_claims": (
        '["a"]',
        ("a",),
        lambda read: read.tokens.preferred_username_claims,
    ),
    "listen.mechanisms": ('["PLAIN"]', ("PLAIN",), lambda read: read.mechanisms),
    "tls.mechanisms": ('["EXTERNAL"]', ("EXTERNAL",), lambda read: read.tls.mechanisms),
    "http.mechanisms": ('["PLAIN"]', ("PLAIN",), lambda read: read.http.mechanisms),
    "cluster.tls_verify": ("false", False, lambda read: read.cluster.tls.verifies),
    "cluster.plain_text": ("true", True, lambda read: read.cluster.plain_text),
    "cluster.replicate": ('"none"', "none", lambda read: read.cluster.replicate),
    "amqp10.create_queues": ("false", False, lambda read: read.creates_queues),
    "http.enabled": ("false", False, lambda read: read.http.enabled),
    "http.allowed_hosts": ('["a"]', ("a",), lambda read: read.http.allowed_hosts),
    "log.level": ('"error"', "error", lambda read: read.log.level),
    "log.format": ('"json"', "json", lambda read: read.log.format),
    "http.websocket_origins": ('["http://a"]', ("http://a",), lambda read: read.http.origins),
}


def written(folder: Path, text: str) -> Path:
    file = folder / "penstock.toml"
    file.write_text(text, encoding="utf-8")
    return file


def setting(key: str, value: str) -> str:
    table, _, name = key.partition(".")
    return f"[{table}]\n{name} = {value}\n"


def read_setting(folder: Path, key: str, value: str) -> ServerConfiguration:
    return read_configuration(written(folder, setting(key, value))).configuration


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read_configuration(written(folder, text))
    return str(refused.value)


def keys_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    keys = set()
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            keys |= keys_of(kind, f"{prefix}{name}.")
        else:
            keys.add(prefix + name)
    return keys


def test_every_key_is_tried_here() -> None:
    assert {*NUMBERS, *TEXTS, *HOSTS, *OTHERS} == keys_of(ConfigurationFile)


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    assert read_configuration(written(tmp_path, "")).configuration == ServerConfiguration()


@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_reaches_the_server(tmp_path: Path, key: str) -> None:
    value, smallest, largest, found = NUMBERS[key]
    assert found(ServerConfiguration()) != value, "the default proves nothing"
    for number in (value, smallest, largest):
        assert found(read_setting(tmp_path, key, str(number))) == number


@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_out_of_range_is_refused_with_the_limit(tmp_path: Path, key: str) -> None:
    _, smallest, largest, _ = NUMBERS[key]
    too_small = refusal(tmp_path, setting(key, str(smallest - 1)))
    assert f"{key}: Input should be greater than or equal to {smallest}" in too_small
    if largest < INTEGER_MAX:
        too_large = refusal(tmp_path, setting(key, str(largest + 1)))
        assert f"{key}: Input should be less than or equal to {largest}" in too_large


@pytest.mark.parametrize("value", ['"5672"', "5.5", "true", "[1]"])
@pytest.mark.parametrize("key", NUMBERS)
def test_what_is_no_number_is_refused(tmp_path: Path, key: str, value: str) -> None:
    said = refusal(tmp_path, setting(key, value))
    assert f"{key}: Input should be a valid integer" in said
    assert str(tmp_path) in said


@pytest.mark.parametrize("value", ["5672", "true", "[]"])
@pytest.mark.parametrize("key", TEXTS)
def test_what_is_no_text_is_refused(tmp_path: Path, key: str, value: str) -> None:
    said = refusal(tmp_path, setting(key, value))
    assert f"{key}: Input should be a valid string" in said


@pytest.mark.parametrize("key", HOSTS)
def test_one_host_or_several_reach_the_server(tmp_path: Path, key: str) -> None:
    assert HOSTS[key](read_setting(tmp_path, key, '"::1"')) == ("::1",)
    assert HOSTS[key](read_setting(tmp_path, key, '["::1", "10.0.0.1"]')) == ("::1", "10.0.0.1")


@pytest.mark.parametrize("value", ["5672", "true", '{a = "b"}'])
@pytest.mark.parametrize("key", HOSTS)
def test_what_is_neither_a_host_nor_a_list_of_them_is_refused(
    tmp_path: Path, key: str, value: str
) -> None:
    assert f"{key}: Input should be a valid list" in refusal(tmp_path, setting(key, value))


def test_a_broker_must_listen_somewhere(tmp_path: Path) -> None:
    said = refusal(tmp_path, setting("listen.host", "[]"))
    assert "listen.host: List should have at least 1 item" in said


@pytest.mark.parametrize("key", OTHERS)
def test_what_is_neither_number_nor_text_reaches_the_server(tmp_path: Path, key: str) -> None:
    written_as, value, found = OTHERS[key]
    assert found(ServerConfiguration()) != value, "the default proves nothing"
    assert found(read_setting(tmp_path, key, written_as)) == value
    assert f"{key}: Input should be " in refusal(tmp_path, setting(key, "5"))


@pytest.mark.parametrize("key", PATHS)
def test_a_relative_path_starts_beside_the_file(tmp_path: Path, key: str) -> None:
    found = TEXTS[key]
    assert found(read_setting(tmp_path, key, '"sub/it"')) == tmp_path / "sub" / "it"
    assert found(read_setting(tmp_path, key, '"/srv/it"')) == Path("/srv/it")
    assert found(read_setting(tmp_path, key, '""')) is None


@pytest.mark.parametrize("table", sorted({key.partition(".")[0] for key in [*NUMBERS, *TEXTS]}))
def test_an_unknown_key_is_refused_by_name(tmp_path: Path, table: str) -> None:
    said = refusal(tmp_path, setting(f"{table}.prot", "1"))
    assert f"{table}.prot: unknown key" in said
    assert "docs/CONFIGURATION.md" in said


def test_an_unknown_table_is_refused_by_name(tmp_path: Path) -> None:
    assert "  listn: unknown key" in refusal(tmp_path, setting("listn.port", "1"))


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "  listen: Input should be " in refusal(tmp_path, "listen = 5672\n")


def test_all_mistakes_are_listed(tmp_path: Path) -> None:
    said = refusal(tmp_path, setting("listen.port", "-1") + setting("data.directory", "1"))
    assert said.splitlines()[0].endswith("penstock.toml has 2 errors:")
    assert len(said.splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[listen\n", "is not valid TOML: Expected ']'"),
        (b"[listen]\nport = 1\nport = 2\n", "is not valid TOML: Cannot overwrite a value"),
        (b"\xff\xfe", "cannot read the configuration file"),
        (None, "cannot read the configuration file"),
    ],
    ids=["no TOML", "a key twice", "no text", "no file"],
)
def test_what_cannot_be_read_is_said_with_its_path(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "penstock.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        read_configuration(file)
    assert complaint in str(refused.value)
    assert str(file) in str(refused.value)
