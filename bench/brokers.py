"""Starts and stops the brokers under test, each a process of its own on loopback.

Every broker gets a fresh data directory and free ports, so that nothing here meets an installed
service, and nothing of a run is left behind but its results.
"""

import abc
import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from bench.cpu import process_tree
from bench.session import BrokerRefusedError, Session

HOST = "127.0.0.1"
PROJECT_ROOT = Path(__file__).resolve().parent.parent
RABBITMQ_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

# How the version of a Penstock ends that runs uncompiled.
PURE = "pure"

# RabbitMQ boots in five to ten seconds on two cores; a first start of ./penstock may have to
# install and compile.
READY_SECONDS_MAX = 60.0
FIRST_READY_SECONDS_MAX = 600.0
STOP_SECONDS_MAX = 15.0

READY_LINE = re.compile(r"penstock ready amqp=(?P<host>[^: ]+):(?P<port>\d+).*? pid=(?P<pid>\d+)")


class BrokerUnavailableError(Exception):
    """The broker cannot be measured here; the text says why and what to do."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class RunningBroker(abc.ABC):
    """One broker process tree. The run holds it from start to stop."""

    name: str
    version: str

    def __init__(self) -> None:
        self.port = 0
        self.pid = 0
        self.startup_seconds = 0.0
        self._folder = Path(tempfile.mkdtemp(prefix=f"penstock-bench-{self.name}-"))
        self._process: subprocess.Popen[str] | None = None
        started = time.perf_counter()
        try:
            self._launch()
            Session(HOST, self.port).close()
        except BaseException:
            self.stop()
            raise
        self.startup_seconds = time.perf_counter() - started

    @abc.abstractmethod
    def _launch(self) -> None:
        """Starts the process and returns once its port answers; sets `port` and `pid`."""

    def stop(self) -> None:
        if self._process is not None:
            end_tree(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _output(self) -> str:
        return (self._folder / "output").read_text(errors="replace")


def end_tree(process: subprocess.Popen[str]) -> None:
    """Asks the whole tree to end, then insists. Only ever a tree that this bench started."""
    members = process_tree(process.pid)
    for member in members:
        send_signal(member, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        for member in process_tree(process.pid):
            send_signal(member, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def send_signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class RabbitMQ(RunningBroker):
    """Debian's package, with its own node name, cookie, directories and port mapper."""

    name = "rabbitmq"

    def __init__(self, script: Path = RABBITMQ_SCRIPT) -> None:
        if not script.exists():
            raise BrokerUnavailableError(
                "RabbitMQ is not installed (Debian: apt-get install rabbitmq-server)"
            )
        self._script = script
        self._port_mapper: subprocess.Popen[str] | None = None
        self.version = rabbitmq_version()
        super().__init__()

    def _launch(self) -> None:
        self.port = free_port()
        environment = self._environment(free_port())
        # Started here and in the foreground; left to itself, Erlang would start one that outlives us.
        self._port_mapper = subprocess.Popen(["epmd"], env=environment, text=True)
        with (self._folder / "output").open("w") as output:
            self._process = subprocess.Popen(
                [str(self._script)],
                env=environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.pid = self._process.pid
        self._wait_for_login()

    def _environment(self, port_mapper_port: int) -> dict[str, str]:
        (self._folder / "plugins").write_text("[].\n")
        (self._folder / "rabbitmq.conf").write_text("log.file.level = warning\n")
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": str(self._folder),
            "RABBITMQ_NODENAME": f"penstock-bench-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ("-kernel inet_dist_use_interface {127,0,0,1}"),
            "ERL_EPMD_PORT": str(port_mapper_port),
            "ERL_EPMD_ADDRESS": HOST,
        }

    def _wait_for_login(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                Session(HOST, self.port).close()
                return
            except (OSError, BrokerRefusedError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    complaint = self._output()[-2000:]
                    raise BrokerUnavailableError(f"RabbitMQ did not start: {complaint}") from None
                time.sleep(0.02)

    def stop(self) -> None:
        super().stop()
        if self._port_mapper is not None:
            end_tree(self._port_mapper)


def rabbitmq_version() -> str:
    releases = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    return releases[-1].name.partition("-")[2] if releases else "unknown"


class Penstock(RunningBroker):
    """The project's own broker, through its own launcher, whichever build that gives."""

    name = "penstock"
    pure = False

    def _launch(self) -> None:
        with (self._folder / "output").open("w") as output:
            self._process = subprocess.Popen(
                [*penstock_command(), "serve", "--host", HOST, "--port", "0"],
                env={**os.environ, "PENSTOCK_PURE": "1" if self.pure else "0"},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        deadline = time.monotonic() + FIRST_READY_SECONDS_MAX
        while (found := READY_LINE.search(self._output())) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BrokerUnavailableError(f"penstock did not start: {self._output()[-2000:]}")
            time.sleep(0.002)
        self.port = int(found["port"])
        self.pid = int(found["pid"])
        self.version = f"{penstock_version()} {self.build()}"

    def build(self) -> str:
        """What really runs: compiled modules are shared objects mapped by the process."""
        mapped = Path(f"/proc/{self.pid}/maps").read_text()
        compiled = re.search(r"/penstock/\S+\.so$|__mypyc\S*\.so$", mapped, re.MULTILINE)
        return "compiled" if compiled else PURE


class PenstockPure(Penstock):
    """The same source without its compiled modules."""

    name = "penstock-pure"
    pure = True


def penstock_command() -> list[str]:
    """The launcher at the root, unless PENSTOCK_COMMAND names another way in."""
    return shlex.split(os.environ.get("PENSTOCK_COMMAND", str(PROJECT_ROOT / "penstock")))


def penstock_version() -> str:
    declared = re.search(
        r'^__version__ = "([^"]+)"',
        (PROJECT_ROOT / "src" / "penstock" / "__init__.py").read_text(),
        re.MULTILINE,
    )
    return declared[1] if declared else "unknown"


BROKERS: dict[str, type[RunningBroker]] = {
    broker.name: broker for broker in (RabbitMQ, Penstock, PenstockPure)
}
