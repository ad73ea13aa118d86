"""One slow command of the set-up, a process that ends with the launcher or holds its lock.

Whoever ends ./penstock during a build starts it again at once, and two compilers in the same folder
spoil each other's files. Two things prevent that:

- SIGTERM, SIGINT and SIGHUP end the command and everything that it has started (it has a process
  group of its own), and this process waits for that before it ends by the same signal;
- the command inherits the lock of `launch.alone`, which is released when the last process that has it
  is gone. So after a SIGKILL, which nobody can handle, the next call waits for the command to end.

PR_SET_PDEATHSIG would not do: the kernel would kill the command, and not the C compilers that it has
started, which would go on writing without a lock.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

# What ends this process, unless its caller had it ignored (nohup does).
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A command that takes minutes may as well end so much later.
LOOK_SECONDS: Final = 0.02
# How long a command may take to end after a signal: compilers remove their unfinished files. Then it
# is killed.
END_SECONDS: Final = 5.0


class SetUpStep:
    """Held by the launcher while the command runs."""

    def __init__(
        self, command: list[str], folder: Path, log: Path, environment: dict[str, str]
    ) -> None:
        self._command = command
        self._folder = folder
        self._log = log
        self._environment = environment
        # The signals that came meanwhile.
        self._told: list[int] = []

    def run(self) -> int:
        """Returns the exit code of the command; does not return when this process was told to end."""
        heeded = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._note) for number in heeded}
        try:
            with self._log.open("wb") as output:
                process = subprocess.Popen(
                    self._command,
                    cwd=self._folder,
                    env=self._environment,
                    # Nobody would see a question: what is said goes to the log.
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                    # For the lock; Python's other files are not inheritable.
                    close_fds=False,
                )
                while process.poll() is None and not self._told:
                    time.sleep(LOOK_SECONDS)
            if self._told:
                end_group(process)
        finally:
            for number, was in before.items():
                signal.signal(number, was)
        if self._told:
            end_by(self._told[0])
        return process.returncode

    def _note(self, number: int, frame: Any) -> None:
        del frame
        self._told.append(number)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a command with all that it has started, and returns when they are gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until:
            # A process that has ended counts until its parent knows.
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(LOOK_SECONDS)


def end_by(number: int) -> NoReturn:
    """So that the caller sees which signal it was."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise AssertionError(f"signal {number} ends this process")
