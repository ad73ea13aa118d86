"""The brokers that can be measured, and how each is started."""

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from bench.certificates import make_certificate
from bench.running import (
    HOST,
    BrokerUnavailableError,
    RunningBroker,
    disk_bytes,
    end_tree,
    free_port,
)
from bench.session import BrokerRefusedError, Session

PROJECT_ROOT = Path(__file__).resolve().parent.parent
RABBITMQ_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

# The suffix of the version of an uncompiled Penstock.
PURE = "pure"

# RabbitMQ boots in five to ten seconds on two cores; a first start of ./penstock may have to
# install and compile.
READY_SECONDS_MAX = 60.0
FIRST_READY_SECONDS_MAX = 600.0

READY_LINE = re.compile(
    r"penstock ready amqp=(?P<host>[^: ]+):(?P<port>\d+)"
    r"( amqps=[^: ]+:(?P<tls_port>\d+))?.*? pid=(?P<pid>\d+)"
)


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
        self._port_mapper_port = 0
        self.version = rabbitmq_version()
        super().__init__()

    def _launch(self, started: float) -> None:
        del started
        if self._port_mapper is None:
            # Chosen once: the node's name contains its port, and its data is found by its name.
            self.port = free_port()
            self._port_mapper_port = free_port()
        environment = self._environment(self._port_mapper_port)
        if self._port_mapper is None:
            # Started here, in the foreground; otherwise Erlang starts one that outlives this
            # process.
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
        (self._folder / "plugins").write_text("[rabbitmq_amqp1_0].\n")
        (self._folder / "rabbitmq.conf").write_text(self._settings())
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

    def _settings(self) -> str:
        if not self.is_secure:
            return "log.file.level = warning\n"
        self.tls_port = self.tls_port or free_port()
        certificate = make_certificate(self._folder, HOST)
        return (
            "log.file.level = warning\n"
            f"listeners.ssl.default = {HOST}:{self.tls_port}\n"
            f"ssl_options.cacertfile = {certificate.file}\n"
            f"ssl_options.certfile = {certificate.file}\n"
            f"ssl_options.keyfile = {certificate.key}\n"
            "ssl_options.verify = verify_none\n"
            "ssl_options.fail_if_no_peer_cert = false\n"
        )

    def data_bytes(self) -> int:
        return disk_bytes(self._folder / "data")

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

    def __init__(self, build: Path | None = None) -> None:
        """`build` is a folder with the package in it, in place of what the launcher starts."""
        self._build = build
        super().__init__()

    def _arguments(self) -> list[str]:
        arguments = ["serve", "--host", HOST, "--port", "0"]
        if self.is_secure:
            certificate = make_certificate(self._folder, HOST)
            arguments += ["--tls-port", "0", "--tls-cert", str(certificate.file)]
            arguments += ["--tls-key", str(certificate.key)]
        return arguments

    def _launch(self, started: float) -> None:
        with (self._folder / "output").open("w") as output:
            self._process = subprocess.Popen(
                [*self._command(), *self._arguments()],
                env=self._environment(),
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
            time.sleep(0.001)
        self.ready_seconds = time.perf_counter() - started
        self.port = int(found["port"])
        self.tls_port = int(found["tls_port"] or 0)
        self.pid = int(found["pid"])
        self.version = f"{penstock_version()} {self.build()}"

    def _command(self) -> list[str]:
        return penstock_command() if self._build is None else [sys.executable, "-m", "penstock"]

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "PENSTOCK_PURE": "1" if self.pure else "0"}
        if self._build is not None:
            environment["PYTHONPATH"] = str(self._build)
        return environment

    def data_bytes(self) -> int:
        return 0

    def build(self) -> str:
        return build_of(self.pid)


class PenstockWithData(Penstock):
    """The same with a data directory, on the disk that the other brokers use."""

    name = "penstock-data"

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--data", str(self._data)]

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _launch(self, started: float) -> None:
        super()._launch(started)
        if not self._data.is_dir() or not any(self._data.iterdir()):
            raise BrokerUnavailableError(
                "penstock was started with --data, but wrote nothing to it"
            )

    def data_bytes(self) -> int:
        return disk_bytes(self._data)


class PenstockPure(Penstock):
    """The same source without its compiled modules."""

    name = "penstock-pure"
    pure = True


def penstock_command() -> list[str]:
    """The launcher at the root, unless PENSTOCK_COMMAND names another command."""
    return shlex.split(os.environ.get("PENSTOCK_COMMAND", str(PROJECT_ROOT / "penstock")))


def build_of(pid: int) -> str:
    """The build that really runs: compiled modules are shared objects mapped by the process."""
    mapped = Path(f"/proc/{pid}/maps").read_text()
    compiled = re.search(r"/penstock/\S+\.so$|__mypyc\S*\.so$", mapped, re.MULTILINE)
    return "compiled" if compiled else PURE


def penstock_version() -> str:
    declared = re.search(
        r'^__version__ = "([^"]+)"',
        (PROJECT_ROOT / "src" / "penstock" / "__init__.py").read_text(),
        re.MULTILINE,
    )
    return declared[1] if declared else "unknown"


def listening_with_tls(kind: type[RunningBroker]) -> type[RunningBroker]:
    """The same broker with a second listener. Not the rule: an older build may have none."""
    return type(kind.__name__, (kind,), {"is_secure": True})


BROKERS: dict[str, type[RunningBroker]] = {
    broker.name: broker for broker in (RabbitMQ, Penstock, PenstockWithData, PenstockPure)
}
