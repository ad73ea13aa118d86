"""The servers of a cluster as processes on free ports of this machine.

A machine with much else to do keeps a server from the processor for seconds: its lease ends, or it
leaves the in-sync set for a while. So no test may rely on the root that it has once found:
`while_root_stays` repeats what a change of the root has disturbed, `succeed` a command, `eventually`
what other servers learn later than the root.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pika

from penstock.cli.local_servers import free_ports
from penstock.cluster.member import Member
from penstock.server.cluster_directory import format_directory
from penstock.server.world.clock import MachineClock
from penstock.server.world.entropy import MachineEntropy
from tests.support.served import END_SECONDS, launch, ready_facts

KEY = b"a key that is long enough for tests\n"


def eventually(what: str, is_so: Callable[[], bool], seconds: float = END_SECONDS) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, f"not in {seconds} s: {what}"
        time.sleep(0.05)


def penstock(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        check=False,
    )


class MemberProcess:
    """One server. Held by its cluster."""

    def __init__(self, name: str, folder: Path, port: int, options: tuple[str, ...]) -> None:
        self.name = name
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.port = port
        self._options = options
        self.process: subprocess.Popen[str] | None = None
        self.http = ""

    def begin(self) -> None:
        """Without waiting until it is ready."""
        with self.log.open("a") as log:
            options = ("--data", str(self.data), "--http-port", "0", *self._options)
            self.process = launch(*options, errors=log)

    def ready(self) -> None:
        assert self.process is not None
        facts = ready_facts(self.process)
        self.http = f"http://{facts['http']}"

    def start(self) -> None:
        self.begin()
        self.ready()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()
        self.process = None

    def stop(self) -> int:
        """Returns its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=END_SECONDS)
        code = self.process.returncode
        self.process = None
        return code

    def status(self) -> dict[str, object]:
        """Empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.http}/api/cluster", timeout=END_SECONDS) as answer:
                read = json.load(answer)
        except OSError:
            return {}
        assert isinstance(read, dict)
        return read

    def code_of(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self.http + path, timeout=END_SECONDS) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def is_root(self) -> bool:
        return self.process is not None and self.code_of("/health/root") == 200

    def in_sync(self) -> set[str]:
        members = self.status().get("members", [])
        assert isinstance(members, list)
        return {member["name"] for member in members if member["in_sync"]}


class ClusterProcesses:
    """Ended by `cluster_processes`."""

    def __init__(
        self,
        folder: Path,
        names: str = "abc",
        options: tuple[str, ...] = (),
        scheme: str = "",
    ) -> None:
        self.folder = folder
        self._options = options
        self._scheme = scheme
        self.key = folder / "key"
        self.key.write_bytes(KEY)
        self.key.chmod(0o600)
        self.members: dict[str, MemberProcess] = {}
        for name, port in zip(names, free_ports(len(names)), strict=True):
            self.add(name, port)

    def add(self, name: str, port: int) -> MemberProcess:
        member = MemberProcess(name, self.folder, port, self._options)
        self.members[name] = member
        return member

    def __getitem__(self, name: str) -> MemberProcess:
        return self.members[name]

    def address(self, name: str) -> str:
        return f"{self._scheme}127.0.0.1:{self.members[name].port}"

    def format(self, name: str) -> subprocess.CompletedProcess[str]:
        words = ["--data", str(self.members[name].data), "--name", name]
        for other in self.members:
            words += ["--member", f"{other}={self.address(other)}"]
        return penstock("cluster", "format", *words, "--key-file", str(self.key))

    def start(self) -> None:
        """Format and start all of them."""
        for name in self.members:
            asyncio.run(self._format_here(name))
        for member in self.members.values():
            member.begin()
        for member in self.members.values():
            member.ready()

    async def _format_here(self, name: str) -> None:
        """As `format`, without a process for each."""
        members = [Member(other, self.address(other)) for other in self.members]
        loop = asyncio.get_running_loop()
        data, key = self.members[name].data, KEY.strip()
        format_directory(data, name, members, key, MachineClock(), MachineEntropy(), loop)

    def root(self) -> MemberProcess:
        """Waits for it."""
        found: list[MemberProcess] = []

        def is_there() -> bool:
            found[:] = [member for member in self.members.values() if member.is_root()]
            return bool(found)

        eventually("a server is the active root", is_there)
        return found[0]

    def await_in_sync(self, names: str) -> None:
        eventually(f"{names} are in sync", lambda: self.root().in_sync() == set(names))

    def while_root_stays(self, check: Callable[[MemberProcess], None]) -> None:
        """Check something with the root; again, if it has not been the root of one epoch throughout."""
        until = time.monotonic() + END_SECONDS
        while True:
            root = self.root()
            epoch = root.status().get("epoch")
            try:
                check(root)
            except Exception:
                has_stayed = root.is_root() and root.status().get("epoch") == epoch
                if has_stayed or time.monotonic() > until:
                    raise
            else:
                return

    def change(self, *words: str) -> subprocess.CompletedProcess[str]:
        """An operator's command at the root."""
        return penstock("cluster", *words, "--server", self.root().http)

    def succeed(self, *words: str) -> None:
        """The same, until it is done: a root that has just changed refuses it."""
        said: list[str] = []

        def is_done() -> bool:
            done = self.change(*words)
            # It may have been done by an attempt whose answer was lost with the root.
            is_repeated = bool(said) and "already" in done.stderr
            said.append(done.stderr)
            return done.returncode == 0 or is_repeated

        self._await_command(words, is_done, said)

    def refuse(self, reason: str, *words: str) -> None:
        """The same, until it is refused for that reason."""
        said: list[str] = []

        def is_refused() -> bool:
            done = self.change(*words)
            said.append(done.stderr)
            return done.returncode == 1 and reason in done.stderr

        self._await_command(words, is_refused, said)

    def _await_command(
        self, words: tuple[str, ...], is_over: Callable[[], bool], said: list[str]
    ) -> None:
        try:
            eventually(f"the answer to cluster {' '.join(words)}", is_over)
        except AssertionError as error:
            error.add_note(said[-1])
            raise

    def make_root(self, name: str) -> None:
        """Hand over until it is the root."""

        def is_root() -> bool:
            if self.root().name == name:
                return True
            self.change("hand-over", name)
            return False

        eventually(f"{name} is the root", is_root)

    def publish(self, queue: str, bodies: list[bytes]) -> None:
        """With confirms, at whichever server is the root; each is repeated until it is confirmed."""
        left = list(bodies)

        def is_published() -> bool:
            try:
                with self.root_connection() as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    channel.queue_declare(queue, durable=True)
                    while left:
                        channel.basic_publish(
                            "", queue, left[0], pika.BasicProperties(delivery_mode=2)
                        )
                        left.pop(0)
            except pika.exceptions.AMQPError:
                return False
            return True

        eventually("everything is confirmed", is_published)

    def taken(self, queue: str) -> list[bytes]:
        """All messages of a queue, which keeps them."""
        bodies: list[bytes] = []

        def take(root: MemberProcess) -> None:
            bodies.clear()
            with self.root_connection() as connection:
                channel = connection.channel()
                while True:
                    method, _, body = channel.basic_get(queue)
                    if method is None:
                        return
                    bodies.append(body)

        self.while_root_stays(take)
        return bodies

    @contextmanager
    def root_connection(self) -> Iterator[pika.BlockingConnection]:
        port = self.root().port
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        try:
            yield connection
        finally:
            if connection.is_open:
                connection.close()

    def end(self) -> None:
        for member in self.members.values():
            if member.process is not None:
                member.kill()


@contextmanager
def cluster_processes(
    folder: Path, names: str = "abc", options: tuple[str, ...] = (), scheme: str = ""
) -> Iterator[ClusterProcesses]:
    """Formatted and started."""
    cluster = ClusterProcesses(folder, names, options, scheme)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
