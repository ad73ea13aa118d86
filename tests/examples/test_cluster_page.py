"""The configuration and the first user of docs/CLUSTER.md, on three servers of this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import authority, signed_by
from tests.support.cluster_processes import ClusterProcesses, eventually
from tests.support.served import END_SECONDS, Served, served_processes

PAGE = Path(__file__).parents[2] / "docs" / "CLUSTER.md"
NAMES = "abc"


def block(language: str) -> str:
    """The first one of the page in this language, without its indentation."""
    found = re.search(
        rf"^( *)```{language}\n(.*?)^ *```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return re.sub(rf"^{found[1]}", "", found[2], flags=re.MULTILINE)


class PageCluster:
    """Set up as the page says. Ended with `served`."""

    def __init__(self, folder: Path, served: Served) -> None:
        self._folder = folder
        ours = authority(folder, "ca")
        signed_by(ours, folder, "server")
        (folder / "penstock.toml").write_text(block("toml"))
        (folder / "definitions.json").write_text(block("json"))
        members = ClusterProcesses(folder, NAMES, scheme="amqps://")
        for name in NAMES:
            assert members.format(name).returncode == 0
        self.servers: dict[str, str] = {}
        for name in NAMES:
            words = ("--data", str(members[name].data), "--config", str(folder / "penstock.toml"))
            served.processes.append(self._launched(words))
            line = served.latest.stdout
            assert line is not None
            http = re.search(r"http=(\S+)", line.readline())
            assert http is not None
            self.servers[name] = f"https://{http[1]}"

    def _launched(self, words: tuple[str, ...]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", *words, "--http-port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def asked(self, server: str, *words: str) -> subprocess.CompletedProcess[str]:
        """As the page's administrator."""
        user = json.loads(block("json"))["users"][0]
        login = {
            "PENSTOCK_CA": str(self._folder / "ca.pem"),
            "PENSTOCK_USER": str(user["name"]),
            "PENSTOCK_PASSWORD": str(user["password"]),
        }
        return subprocess.run(
            [sys.executable, "-m", "penstock", *words, "--server", self.servers[server]],
            capture_output=True,
            text=True,
            timeout=END_SECONDS,
            check=False,
            env={**os.environ, **login},
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PageCluster]:
    with served_processes() as served:
        yield PageCluster(tmp_path, served)


def test_the_administrator_of_the_page_changes_the_cluster_over_https(cluster: PageCluster) -> None:
    """The root does what it is told; others name the root to whoever asks them."""
    said: list[str] = []

    def is_done() -> bool:
        """The root may be another one each time."""
        for name in NAMES:
            done = cluster.asked(name, "cluster", "hand-over")
            said.append(done.stdout + done.stderr)
        told = "".join(said)
        return "is the root" in told and "The root is at amqps://" in told

    try:
        eventually("a root has handed over, and others have named it", is_done)
    except AssertionError as error:
        error.add_note("".join(said[-len(NAMES) :]))
        raise
    for name in NAMES:
        assert cluster.asked(name, "ha", "status").returncode == 0
