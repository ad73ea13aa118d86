"""systemd hears when the broker is ready, reloads and stops, and that it is alive."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.server.health import FLUSH_MS_MAX, TICK_MS_MAX, Health
from penstock.server.systemd import Systemd
from tests.server.doubles import HandClock
from tests.support.served import launch, ready_facts

UNIT = Path(__file__).parents[2] / "examples" / "systemd" / "penstock.service"
SECONDS = 60.0


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hearing:
        hearing.bind(address)
        hearing.settimeout(SECONDS)
        yield hearing


def heard(hearing: socket.socket) -> dict[str, str]:
    text = hearing.recv(4096).decode()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_served_broker_tells_systemd_how_it_is(tmp_path: Path) -> None:
    with listening(str(tmp_path / "notify")) as hearing:
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with launch("--port", "0", "--http-port", "0", environment=environment) as process:
            ready_facts(process)
            told = [heard(hearing)]
            while "READY" not in told[-1]:
                told.append(heard(hearing))
            assert told[-1] == {"READY": "1", "MAINPID": str(process.pid)}
            while "WATCHDOG" not in told[-1]:
                told.append(heard(hearing))
            process.send_signal(signal.SIGHUP)
            while "RELOADING" not in told[-1]:
                told.append(heard(hearing))
            assert int(told[-1]["MONOTONIC_USEC"]) > 0
            while "READY" not in told[-1]:
                told.append(heard(hearing))
            process.terminate()
            while "STOPPING" not in told[-1]:
                told.append(heard(hearing))
            assert process.wait(SECONDS) == 0


def test_the_watchdog_is_fed_twice_in_its_time_and_only_while_something_goes_on() -> None:
    clock = HandClock()
    health = Health(clock)
    name = f"penstock-test-{os.getpid()}"
    with listening(f"\0{name}") as hearing:
        feed = Systemd({"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "60000000"}).watcher(
            health.stall
        )
        assert feed is not None
        hearing.setblocking(False)
        fed = []
        began = clock.now()
        for passed in range(0, 120_000, 250):
            now = began + passed
            clock.milliseconds = now
            if passed <= 50_000:
                health.tick_completed(now)
            feed(now)
            try:
                assert hearing.recv(100) == b"WATCHDOG=1"
            except BlockingIOError:
                continue
            fed.append(passed)
    # Ticks end at 50 s; at 60 s that is not long enough yet to tell.
    assert TICK_MS_MAX == 10_000
    assert fed == [0, 30_000, 60_000]


def test_a_failure_that_was_survived_does_not_starve_the_watchdog() -> None:
    clock = HandClock()
    health = Health(clock)
    health.failed("sweeping", clock.now())
    assert health.problem()
    assert not health.stall()
    health.flushing_since = clock.now
    assert not health.stall()
    stuck = clock.now()
    health.flushing_since = lambda: stuck
    clock.milliseconds = stuck + FLUSH_MS_MAX + 1
    health.tick_completed(clock.now())
    assert "flush" in health.stall()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WATCHDOG_USEC": "60000000"},
        {"NOTIFY_SOCKET": "/nowhere"},
        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"},
        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "soon"},
    ],
)
def test_without_a_watchdog_nobody_is_fed(environment: dict[str, str]) -> None:
    systemd = Systemd(environment)
    assert systemd.watcher(lambda: "") is None
    systemd.ready()
    systemd.stopping()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    # The program need not be installed for that.
    program = tmp_path / "penstock"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "penstock.service"
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    told = [line for line in (done.stdout + done.stderr).splitlines() if "penstock" in line]
    assert (done.returncode, told) == (0, [])
