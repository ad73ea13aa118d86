"""A cluster of real server processes, formatted and started on free ports, ended by whoever made it.

Everything is awaited by polling what the servers say of themselves, with a deadline that a machine
with much else to do still meets: nothing here proves that anything is fast. On such a machine a server
may be kept from the processor for seconds, so that its lease ends or it leaves the in-sync set: a test
asks for the root again instead of relying on one that it found before, or asks `has_stayed`.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from penstock.cluster.member import Member
from penstock.server.cluster_directory import FOLDER, MEMBER_NAME, format_directory
from penstock.server.world.clock import MachineClock
from penstock.server.world.entropy import MachineEntropy
from tests.support.served import ready_facts

# For everything that a test waits for.
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.05
# For one question; a server that is stopped answers none.
ANSWER_SECONDS = 5.0
KEY = b"a key that the servers of these tests share"
OTHER_KEY = b"a key of servers that are not one of these"
NAMES = "abcdefg"
# Below the ports that the machine gives to connections, so that none of those is in the way.
PORTS = (15_000, 32_000)
LOG_TAIL_CHARACTERS = 3000

# Why a root steps down that was away for too long, in its log.
LEASE_ENDED = "its lease has ended"

Found = TypeVar("Found")
Status = dict[str, object]


class ClusterServer:
    """One server: its directory, its ports, and the process while it runs."""

    def __init__(self, name: str, data: Path, port: int, http_port: int) -> None:
        self.name = name
        self.data = data
        self.port = port
        self.http_port = http_port
        self.environment: dict[str, str] = {}
        self._log = data.with_name(f"{data.name}.log")
        self._process: subprocess.Popen[str] | None = None
        self._is_paused = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def launch(self, *options: str) -> None:
        """Without waiting for it."""
        assert not self.is_running
        command = [sys.executable, "-m", "penstock", "serve", f"--data={self.data}"]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, f"--http-port={self.http_port}", *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **self.environment},
            )

    def await_ready(self) -> None:
        assert self._process is not None
        try:
            facts = ready_facts(self._process)
        except AssertionError as error:
            error.add_note(self.log_tail())
            raise
        assert facts["amqp"] == f"127.0.0.1:{self.port}", facts

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def refused(self, *options: str) -> tuple[int, str]:
        """Start and expect that it does not; the exit code and what it said."""
        before = len(self.log())
        self.launch(*options)
        assert self._process is not None
        output, _ = self._process.communicate(timeout=PATIENCE_SECONDS)
        process, self._process = self._process, None
        assert not output, output
        return process.returncode, self.log()[before:]

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def pause(self) -> None:
        self.send(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """Its own process only, which a stopped one feels too."""
        if self._process is not None:
            process, self._process = self._process, None
            self._is_paused = False
            process.kill()
            process.communicate()

    def exit_code(self) -> int:
        """Of a process that has ended by itself."""
        assert self._process is not None
        process, self._process = self._process, None
        process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE_SECONDS)
        process, self._process = self._process, None
        return process.returncode

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def log_tail(self) -> str:
        return f"log of {self.name}: {self.log()[-LOG_TAIL_CHARACTERS:]}"

    def page(self, path: str) -> tuple[int, str]:
        """Status and text; status 0 from a server that does not answer."""
        try:
            with urllib.request.urlopen(f"{self.http}{path}", timeout=ANSWER_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def status(self) -> Status:
        """Empty from a server that does not answer."""
        is_asked = self.is_running and not self._is_paused
        code, text = self.page("/api/cluster") if is_asked else (0, "")
        return json.loads(text) if code == 200 else {}

    def role(self) -> object:
        return self.status().get("role")

    def is_root(self) -> bool:
        return self.role() == "active"

    def was_root(self) -> bool:
        """Whether its log says so."""
        return "role=active" in self.log()

    def has_stayed(self) -> bool:
        """Whether it is still the root, or has lost nothing but its lease, on a busy machine."""
        return self.is_root() or LEASE_ENDED in self.log()


class RunningCluster:
    """Held by a test; `running_cluster` ends it."""

    def __init__(self, folder: Path, count: int, advertised: Sequence[int] = ()) -> None:
        """With `advertised`, the servers find one another at these ports instead of their own."""
        self.folder = folder
        ports = free_ports(2 * count)
        self.servers = [
            ClusterServer(name, folder / name, ports[index], ports[count + index])
            for index, name in enumerate(NAMES[:count])
        ]
        places = advertised or ports[:count]
        self.members = [
            Member(server.name, f"127.0.0.1:{port}")
            for server, port in zip(self.servers, places, strict=False)
        ]
        self.key_file = folder / "key"
        self.key_file.write_bytes(KEY)
        self.key_file.chmod(0o600)

    def __getitem__(self, name: str) -> ClusterServer:
        return next(server for server in self.servers if server.name == name)

    def format(self, server: ClusterServer, key: bytes = KEY) -> None:
        format_member(server.data, server.name, self.members, key)
        listen_at(server.data, server.port)

    def start(self, count: int | None = None) -> "RunningCluster":
        """Format and start all of them, or the first ones."""
        for server in self.servers[:count]:
            self.format(server)
        return self.start_again(self.servers[:count])

    def start_again(self, servers: Sequence[ClusterServer]) -> "RunningCluster":
        """All at once; each needs a second of the processor."""
        for server in servers:
            server.launch()
        for server in servers:
            server.await_ready()
        return self

    def running(self) -> list[ClusterServer]:
        return [server for server in self.servers if server.is_running]

    def root(self, *others: ClusterServer) -> ClusterServer:
        """The server that is the active root, as soon as one of those but `others` is."""

        def find() -> ClusterServer | None:
            asked = [server for server in self.running() if server not in others]
            return next((server for server in asked if server.is_root()), None)

        return self.until("a root is active", find)

    def backups(self) -> list[ClusterServer]:
        root = self.root()
        return [server for server in self.running() if server is not root]

    def whole_root(self, *away: ClusterServer) -> ClusterServer:
        """The root, as soon as every member but those `away` is in sync with it."""
        names = {server.name for server in self.servers if server not in away}

        def find() -> ClusterServer | None:
            return next((one for one in self.running() if names <= in_sync_names(one)), None)

        return self.until(f"a root with {sorted(names)} in sync", find)

    def until(self, what: str, find: Callable[[], Found | None]) -> Found:
        """What `find` finds, once it is neither None nor False."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = find()
            if found is not None and found is not False:
                return found
            time.sleep(POLL_SECONDS)
        error = AssertionError(f"waited {PATIENCE_SECONDS:g} s until {what}")
        for server in self.servers:
            error.add_note(f"{server.name}: {server.status()}")
            error.add_note(server.log_tail())
        raise error

    def command(self, *words: str, at: ClusterServer | None = None) -> tuple[int, str]:
        """`penstock cluster ...`, asked of one server or of the root; exit code and output."""
        server = at or self.root()
        return penstock("cluster", *words, "--server", server.http)

    def succeed(self, *words: str) -> str:
        """The same; a command that met a change of the root is given again."""

        def attempt() -> str | None:
            code, output = self.command(*words)
            # It may have been done by an attempt whose answer was lost with the root.
            is_repeated = bool(answers) and "already" in output
            answers.append(output)
            return output if code == 0 or is_repeated else None

        answers: list[str] = []
        try:
            return self.until(f"penstock cluster {' '.join(words)} succeeds", attempt)
        except AssertionError as error:
            error.add_note(answers[-1])
            raise

    def while_root_stays(self, check: Callable[[ClusterServer], None]) -> None:
        """Check something with the root; again, if it has not been the root of one epoch throughout."""

        def attempt() -> bool:
            root = self.whole_root()
            epoch = root.status().get("epoch")
            try:
                check(root)
            except Exception:
                status = root.status()
                if (status.get("role"), status.get("epoch")) == ("active", epoch):
                    raise
                return False
            return True

        self.until("a root stays", attempt)

    def make_root(self, server: ClusterServer) -> None:
        """Hand over until it is the root."""

        def attempt() -> bool:
            if server.is_root():
                return True
            self.command("hand-over", server.name)
            return False

        self.until(f"{server.name} is the root", attempt)

    def await_dropped(self, server: ClusterServer) -> None:
        """Until a root has others in its in-sync set, and not this one."""

        def is_dropped() -> bool:
            names = in_sync_names(self.root())
            return len(names) > 0 and server.name not in names

        self.until(f"{server.name} is dropped from the in-sync set", is_dropped)

    def close(self) -> None:
        for server in self.servers:
            server.kill()


def says(cluster: RunningCluster, server: ClusterServer, *texts: str) -> None:
    cluster.until(f"the log of {server.name} says {texts}", lambda: has_all(server.log(), texts))


def has_all(log: str, texts: tuple[str, ...]) -> bool:
    """Whether one line has all of them."""
    return any(all(text in line for text in texts) for line in log.splitlines())


@contextmanager
def running_cluster(
    folder: Path, count: int, advertised: Sequence[int] = ()
) -> Iterator[RunningCluster]:
    cluster = RunningCluster(folder, count, advertised)
    try:
        yield cluster
    finally:
        cluster.close()


def in_sync_names(server: ClusterServer) -> set[object]:
    """Empty from a server that is not the active root."""
    status = server.status()
    if status.get("role") != "active":
        return set()
    return {row["name"] for row in member_rows(status) if row["in_sync"]}


def member_rows(status: Status) -> list[dict[str, object]]:
    rows = status.get("members", [])
    assert isinstance(rows, list)
    return rows


def member_row(status: Status, name: str) -> dict[str, object]:
    return next((row for row in member_rows(status) if row["name"] == name), {})


def format_member(data: Path, name: str, members: list[Member], key: bytes) -> None:
    """As the command does, without a process of its own."""

    async def write() -> None:
        loop = asyncio.get_running_loop()
        format_directory(data, name, members, key, MachineClock(), MachineEntropy(), loop)

    asyncio.run(write())


def listen_at(data: Path, port: int) -> None:
    """Where the server listens; the other servers may know it by another port, a proxy's."""
    path = data / FOLDER / MEMBER_NAME
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "address": f"127.0.0.1:{port}"}))


def penstock(*words: str) -> tuple[int, str]:
    """A command; its exit code, and what it said on both streams."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    found: list[int] = []
    for port in random.sample(range(*PORTS), 50 * count):
        with contextlib.suppress(OSError), socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")
