"""Finds, installs or compiles the clients that are not Python packages, once for all xdist workers.

A client that is missing is never passed over in silence. With `CI=true` the absence of node is
a failure; everything else is a skip that says why and which command would help.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".penstock" / "interop"

# Enough for a slow mirror; a machine that needs longer is better served by a skip.
INSTALL_SECONDS_MAX = 240.0
# A cold compile of Go's networking packages takes most of a minute on one busy core.
COMPILE_SECONDS_MAX = 240.0

DEBIAN_INSTALL = (
    "apt-get install -y --no-install-recommends "
    "amqp-tools golang-go golang-github-rabbitmq-amqp091-go-dev "
    "gcc libc6-dev libqpid-proton11-dev libqpid-proton11-dev-examples"
)
GO_SOURCES = Path("/usr/share/gocode")
PROTON_EXAMPLES = Path("/usr/share/proton/examples")
# By their full names, because Debian's package has no links to them without a version.
PROTON_LIBRARIES = ("-l:libqpid-proton-core.so.10", "-l:libqpid-proton-proactor.so.1")


def amqp_tools() -> Path:
    """The folder that holds librabbitmq's command-line tools."""
    wanted = Path("/usr/bin/amqp-publish")
    _ensure_debian(wanted)
    return wanted.parent


def go_client() -> Path:
    """The compiled `go_client/main.go`, linked with Debian's amqp091-go."""
    _ensure_debian(GO_SOURCES / "src/github.com/rabbitmq/amqp091-go")
    _ensure_debian(Path("/usr/bin/go"))
    program = CACHE / "go" / "client"
    environment = os.environ | {
        "GOPATH": str(GO_SOURCES),
        "GO111MODULE": "off",
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
        "GOCACHE": str(CACHE / "go" / "build"),
    }
    command = ["/usr/bin/go", "build", "-o", str(program), str(HERE / "go_client" / "main.go")]
    with _one_process_at_a_time("go"):
        # Always called: Go's own cache knows what is stale, and a warm build costs little.
        _run(command, COMPILE_SECONDS_MAX, environment)
    return program


def proton_examples(*names: str) -> Path:
    """The folder of Debian's examples of Qpid Proton's C library, compiled as they come."""
    for name in names:
        _ensure_debian(PROTON_EXAMPLES / "c" / f"{name}.c")
    _ensure_debian(Path("/usr/include/proton/proactor.h"))
    _ensure_debian(Path("/usr/bin/gcc"))
    folder = CACHE / "proton_c"
    with _one_process_at_a_time("proton_c"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            source = str(PROTON_EXAMPLES / "c" / f"{name}.c")
            program = folder / name
            command = ["/usr/bin/gcc", "-o", f"{program}.new", source]
            _run([*command, *PROTON_LIBRARIES, "-lpthread"], COMPILE_SECONDS_MAX, None)
            # Another worker may be running the old one.
            Path(f"{program}.new").replace(program)
    return folder


def proton_python_examples() -> Path:
    """The folder of Debian's examples of Qpid Proton's Python binding, as they come."""
    folder = PROTON_EXAMPLES / "python"
    _ensure_debian(folder / "simple_send.py")
    return folder


def rabbitmq_amqp_client() -> Path:
    """The interpreter of an environment that holds RabbitMQ's AMQP 1.0 client, in the version that
    `rabbitmq_amqp_client/requirements.txt` pins. Apart, because it brings a Proton of its own.
    """
    folder = CACHE / "rabbitmq_amqp_client"
    requirements = HERE / "rabbitmq_amqp_client" / "requirements.txt"
    installed = folder / "installed.txt"
    python = folder / "bin" / "python"
    with _one_process_at_a_time("rabbitmq_amqp_client"):
        if not installed.exists() or installed.read_bytes() != requirements.read_bytes():
            try:
                _run([sys.executable, "-m", "venv", str(folder)], INSTALL_SECONDS_MAX, None)
                install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
                _run(install, INSTALL_SECONDS_MAX, None)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"RabbitMQ's client cannot be installed here: {str(error)[-300:]}")
            installed.write_bytes(requirements.read_bytes())
    return python


def prometheus() -> Path:
    """Debian's Prometheus, unpacked and not installed: a package that is installed starts a server
    that listens on all addresses.
    """
    installed = shutil.which("prometheus")
    if installed is not None:
        return Path(installed)
    folder = CACHE / "prometheus"
    program = folder / "usr/bin/prometheus"
    reason = "Prometheus is missing; as root: apt-get install prometheus"
    with _one_process_at_a_time("prometheus"):
        if program.exists():
            return program
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            pytest.skip(reason)
        folder.mkdir(parents=True, exist_ok=True)
        download = "apt-get download prometheus"
        script = (
            f"cd {shlex.quote(str(folder))} && {{ {download} || {{ apt-get update && {download}; }}; }}"
            " && dpkg-deb --extract prometheus_*.deb ."
        )
        try:
            _run(["sh", "-c", script], INSTALL_SECONDS_MAX, None)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{reason}; it cannot be downloaded here: {str(error)[-300:]}")
    return program


def node_packages(name: str) -> Path:
    """The folder whose `node_modules` holds what `NAME/package.json` pins."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        reason = f"{name} needs node (18 or later) and npm on the PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    folder = CACHE / name
    wanted = (HERE / name / "package.json").read_bytes()
    installed = folder / "installed.json"
    with _one_process_at_a_time(name):
        if not installed.exists() or installed.read_bytes() != wanted:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "package.json").write_bytes(wanted)
            command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund"]
            _run(command, INSTALL_SECONDS_MAX, dict(os.environ))
            installed.write_bytes(wanted)
    return folder


def _ensure_debian(wanted: Path) -> None:
    """Installs all Debian clients when one is missing and we may; skips when it stays missing."""
    with _one_process_at_a_time("apt"):
        if wanted.exists():
            return
        reason = f"{wanted} is missing; as root: {DEBIAN_INSTALL}"
        attempt = CACHE / f"apt-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
        if os.geteuid() == 0 and shutil.which("apt-get") and not attempt.exists():
            attempt.touch()
            quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            script = f"{DEBIAN_INSTALL} || {{ apt-get update && {DEBIAN_INSTALL}; }}"
            try:
                _run(["sh", "-c", script], INSTALL_SECONDS_MAX, quiet)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                reason = f"{reason}; that failed here: {str(error)[-300:]}"
        if not wanted.exists():
            pytest.skip(reason)


def _run(command: list[str], seconds: float, environment: dict[str, str] | None) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")


@contextmanager
def _one_process_at_a_time(name: str) -> Iterator[None]:
    """Keeps xdist's workers from installing or compiling into the same folder at once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
