"""The data directory of a cluster member."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.cluster.member import Member
from penstock.cluster.promises import open_promises
from penstock.server.cluster_directory import (
    KeyRefused,
    MemberFiles,
    NotFormatted,
    format_directory,
    read_key,
    read_member,
)
from penstock.server.data_directory import open_to_read
from penstock.server.world.clock import MachineClock
from penstock.server.world.disk import MachineDisk
from penstock.server.world.entropy import MachineEntropy

KEY = b"k" * 32
MEMBERS = [Member("a", "127.0.0.1:1"), Member("b", "127.0.0.1:2")]


def formatted(path: Path, cluster_id: bytes = b"") -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        clock, entropy = MachineClock(), MachineEntropy()
        format_directory(path, "b", MEMBERS, KEY, clock, entropy, loop, cluster_id)

    asyncio.run(run())


def test_what_was_formatted_is_read_back(tmp_path: Path) -> None:
    formatted(tmp_path / "data")
    assert read_member(tmp_path / "data") == MemberFiles("b", "127.0.0.1:2", KEY)


def test_the_promises_have_the_store_id_of_the_directory(tmp_path: Path) -> None:
    formatted(tmp_path, b"i" * 16)
    directory = open_to_read(tmp_path)
    directory.close()

    async def run() -> None:
        disk = MachineDisk(tmp_path, MachineClock(), asyncio.get_running_loop())
        try:
            promises = open_promises(disk)
            assert promises.store_id == directory.store_id
            assert promises.record.cluster_id == b"i" * 16
            assert promises.record.names() == ["a", "b"]
            assert promises.record.in_sync == ("a", "b")
        finally:
            disk.close()

    asyncio.run(run())


def test_a_directory_without_a_cluster_has_no_member(tmp_path: Path) -> None:
    assert read_member(None) is None
    assert read_member(tmp_path) is None


def test_a_format_that_was_interrupted_is_noticed_and_can_be_repeated(tmp_path: Path) -> None:
    formatted(tmp_path)
    (tmp_path / "cluster" / "member").unlink()
    with pytest.raises(NotFormatted, match="not formatted to the end"):
        read_member(tmp_path)
    formatted(tmp_path)
    assert read_member(tmp_path) is not None


def test_existing_data_is_never_formatted(tmp_path: Path) -> None:
    formatted(tmp_path)
    with pytest.raises(NotFormatted, match="a cluster member already"):
        formatted(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("precious")
    with pytest.raises(NotFormatted, match="is not empty"):
        formatted(tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["file"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 2}'])
def test_a_damaged_member_file_is_refused(text: str, tmp_path: Path) -> None:
    formatted(tmp_path)
    (tmp_path / "cluster" / "member").write_text(text)
    with pytest.raises(NotFormatted):
        read_member(tmp_path)


def test_a_key_that_others_can_read_is_taken_with_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(KEY + b"\n")
    file.chmod(0o644)
    key, warning = read_key(file)
    assert (key, "chmod 600" in warning) == (KEY, True)
    file.chmod(0o600)
    assert read_key(file) == (KEY, "")


@pytest.mark.parametrize("octets", [b"", b"short", b"k" * 5000])
def test_a_key_of_the_wrong_length_is_refused(octets: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(octets)
    with pytest.raises(KeyRefused):
        read_key(file)


def test_a_key_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyRefused, match="cannot read the key file"):
        read_key(tmp_path / "missing")
