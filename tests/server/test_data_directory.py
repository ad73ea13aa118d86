"""The data directory: made, found again, locked; and every refusal, which changes nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.server.data_directory import (
    DIRECTORY_VERSION,
    DataDirectory,
    DataDirectoryError,
    DirectoryLocked,
    MetaDamaged,
    NotADirectory,
    NotOurDirectory,
    OtherVersion,
    open_data_directory,
    open_to_read,
)
from penstock.server.world.clock import MachineClock
from penstock.server.world.entropy import MachineEntropy

OPEN = """
import sys
from pathlib import Path
from penstock.server.data_directory import DataDirectoryError, open_data_directory
from penstock.server.world.clock import MachineClock
from penstock.server.world.entropy import MachineEntropy
try:
    directory = open_data_directory(Path(sys.argv[1]), MachineClock(), MachineEntropy())
except DataDirectoryError as error:
    print(type(error).__name__, error, flush=True)
else:
    print("open", directory.store_id.hex(), flush=True)
    sys.stdin.read()
"""


def opened(path: Path) -> DataDirectory:
    return open_data_directory(path, MachineClock(), MachineEntropy())


def files_in(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def test_a_missing_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    directory = opened(path)
    meta = json.loads((path / "meta").read_text())
    assert meta["version"] == DIRECTORY_VERSION
    assert meta["store_id"] == directory.store_id.hex()
    assert len(directory.store_id) == 16
    assert meta["created"].endswith("+00:00")
    assert path.stat().st_mode & 0o777 == 0o700
    assert sorted(files_in(path)) == ["lock", "meta"]
    directory.close()


def test_the_same_store_is_found_again(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.close()
    before = files_in(tmp_path)
    second = opened(tmp_path)
    assert second.store_id == first.store_id
    assert files_in(tmp_path)["meta"] == before["meta"]
    second.close()


def test_two_stores_have_two_ids(tmp_path: Path) -> None:
    one, two = opened(tmp_path / "one"), opened(tmp_path / "two")
    assert one.store_id != two.store_id
    one.close()
    two.close()


@pytest.mark.parametrize("left_over", ["lock", "meta.new"])
def test_a_directory_that_a_killed_server_was_making_is_made_anew(
    tmp_path: Path, left_over: str
) -> None:
    (tmp_path / left_over).write_text("half")
    (tmp_path / "lost+found").mkdir()
    opened(tmp_path).close()
    assert sorted(files_in(tmp_path)) == ["lock", "meta"]


def test_a_directory_in_use_is_refused_with_the_process_id_of_its_server(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OPEN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None and server.stdin is not None
        assert server.stdout.readline().startswith("open")
        before = files_in(tmp_path)
        for attempt in (opened, open_to_read):
            with pytest.raises(DirectoryLocked, match=f"in use by process {server.pid}"):
                attempt(tmp_path)
        assert files_in(tmp_path) == before
        server.stdin.close()
        server.wait(10)
    opened(tmp_path).close()


def test_a_killed_servers_lock_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OPEN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("open")
        server.kill()
        server.wait(10)
    opened(tmp_path).close()


def test_readers_share_a_directory_and_keep_servers_out(tmp_path: Path) -> None:
    opened(tmp_path).close()
    before = files_in(tmp_path)
    readers = [open_to_read(tmp_path), open_to_read(tmp_path)]
    with pytest.raises(DirectoryLocked):
        opened(tmp_path)
    for reader in readers:
        reader.close()
    assert files_in(tmp_path) == before


def test_a_copy_without_its_lock_can_be_read(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.close()
    (tmp_path / "lock").unlink()
    reader = open_to_read(tmp_path)
    assert reader.store_id == directory.store_id
    reader.close()
    assert sorted(files_in(tmp_path)) == ["meta"]


META = {"version": DIRECTORY_VERSION, "store_id": "00" * 16, "created": "2024-01-01"}


@pytest.mark.parametrize(
    ("files", "refusal", "text"),
    [
        ({"photo.jpg": "x"}, NotOurDirectory, "not empty"),
        ({"journal/000000000001.log": "x", "lock": ""}, NotOurDirectory, "no `meta`"),
        ({"meta": json.dumps({**META, "version": 2})}, OtherVersion, "version 2"),
        ({"meta": json.dumps({"version": 2})}, OtherVersion, "version 2"),
        ({"meta": ""}, MetaDamaged, "damaged"),
        ({"meta": "[]"}, MetaDamaged, "damaged"),
        ({"meta": "{}"}, MetaDamaged, "version"),
        ({"meta": json.dumps({**META, "store_id": 5})}, MetaDamaged, "damaged"),
        ({"meta": json.dumps({**META, "store_id": "0011"})}, MetaDamaged, "2 bytes"),
    ],
)
def test_a_directory_that_is_not_ours_is_refused_and_left_as_it_was(
    tmp_path: Path, files: dict[str, str], refusal: type[DataDirectoryError], text: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    before = files_in(tmp_path)
    for attempt in (opened, open_to_read):
        with pytest.raises(refusal) as caught:
            attempt(tmp_path)
        assert str(tmp_path) in str(caught.value)
    with pytest.raises(refusal, match=text):
        opened(tmp_path)
    assert files_in(tmp_path) == before


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("mine")
    for place in (path, path / "deeper"):
        with pytest.raises(NotADirectory):
            opened(place)
        with pytest.raises(NotADirectory):
            open_to_read(place)
    assert path.read_text() == "mine"


def test_reading_a_directory_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotADirectory):
        open_to_read(tmp_path / "data")
    assert not list(tmp_path.iterdir())


def on_a_mount(path: Path, script: str) -> str:
    """What opening says inside a mount namespace of its own, so that nothing is left mounted."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    result = subprocess.run(
        [*command, str(path), sys.executable, OPEN],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if "mount:" in result.stderr or "unshare:" in result.stderr:
        pytest.skip("no mounts here: " + result.stderr.strip())
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_read_only_disk_is_refused(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o ro none "$1" && '
    said = on_a_mount(tmp_path, mount + 'exec "$2" -c "$3" "$1"')
    assert said.startswith(f"DirectoryReadOnly {tmp_path} is not writable: Read-only file system")
    said = on_a_mount(tmp_path, mount + 'exec "$2" -c "$3" "$1/new"')
    assert said.startswith(f"DirectoryReadOnly {tmp_path}/new is not writable")


def test_a_read_only_disk_with_a_store_on_it_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3" "$1"'
    assert on_a_mount(tmp_path, script).startswith("DirectoryReadOnly")


def test_a_full_disk_is_refused_and_leaves_no_half_made_meta(tmp_path: Path) -> None:
    script = (
        'mount -t tmpfs -o size=8k none "$1" && mkdir "$1/data" && '
        '{ head -c 100000 /dev/zero > "$1/filler" || true; } 2>/dev/null; '
        '"$2" -c "$3" "$1/data" && ls "$1/data"'
    )
    said = on_a_mount(tmp_path, script)
    assert said.startswith(
        f"DirectoryFull {tmp_path}/data cannot be written: No space left on device"
    )
    assert "meta" not in said.splitlines()
