"""./penstock, tried on a toy project: a package that prints where it runs, and a fake setup.py.

The virtual environment is a link to this Python with the stamps of a finished installation, so
what is tested here is when the launcher builds, reuses, cleans up, falls back and waits. That the
real installation works is shown by every run of the suite, which the launcher started.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import launch
import pytest
import toolchain

ROOT = toolchain.ROOT

TOY_MAIN = """
import os, sys, penstock
print(os.path.basename(os.path.dirname(os.path.dirname(penstock.__file__))), *sys.argv[1:])
"""

# Like the real one it fills --build-lib; it counts its calls, and fails when told to.
TOY_SETUP = """
import pathlib, sys, time
if pathlib.Path("broken").exists():
    sys.exit("the toy compiler failed")
time.sleep(0.3)  # long enough for a second call to find the first at work
with open("builds", "a") as log:
    log.write("built\\n")
target = pathlib.Path(sys.argv[sys.argv.index("--build-lib") + 1])
(target / "penstock" / "wire").mkdir(parents=True)
(target / "penstock" / "wire" / "octets.so").touch()
"""

# A build that lasts until the folder has a file `go`, with a compiler that it has started. It writes both
# process ids when it begins, and leaves a mark when another build is at work.
LONG_SETUP = """
import os, pathlib, subprocess, sys, time
other = pathlib.Path("at-work")
if other.exists():
    pathlib.Path("collision").touch()
other.touch()
compiler = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
with open("processes", "a") as log:
    log.write(f"{os.getpid()} {compiler.pid}\\n")
for _ in range(5000):
    # Not for ever, should the test have failed.
    if pathlib.Path("go").exists():
        break
    time.sleep(0.02)
compiler.kill()
compiler.wait()
target = pathlib.Path(sys.argv[sys.argv.index("--build-lib") + 1])
(target / "penstock" / "wire").mkdir(parents=True)
(target / "penstock" / "wire" / "octets.so").touch()
other.unlink()
"""
# A loaded machine may take so long for what takes a moment.
SECONDS = 60.0


class ToyProject:
    """A folder with the real launcher and everything else small. Held by one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "src" / "penstock"
        (self.package / "wire").mkdir(parents=True)
        for name in ("penstock", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        (folder / "tools").mkdir()
        for name in ("launch.py", "set_up_step.py", "toolchain.py"):
            shutil.copy(ROOT / "tools" / name, folder / "tools")
        (folder / "setup.py").write_text(TOY_SETUP)
        (self.package / "__init__.py").touch()
        (self.package / "__main__.py").write_text(TOY_MAIN)
        (self.package / "wire" / "octets.py").write_text("ONE = 1\n")
        self.pretend_installed()

    def pretend_installed(self) -> None:
        environment = self.folder / ".venv"
        (environment / "bin").mkdir(parents=True)
        (environment / "bin" / "python").symlink_to(sys.executable)
        key = "import launch, toolchain; print(launch.installed_key(toolchain.read_project()))"
        stamp = subprocess.check_output(
            [sys.executable, "-c", key], cwd=self.folder / "tools", text=True
        )
        (environment / "penstock-installed").write_text(stamp.strip())

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        ours = {name: value for name, value in os.environ.items() if "PENSTOCK" not in name}
        ours |= {"PYTHONPATH": str(self.folder / "src"), "CC": sys.executable}
        return subprocess.Popen(
            [self.folder / "penstock", *arguments],
            env={**ours, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        with self.start(*arguments, **environment) as process:
            output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def build_count(self) -> int:
        log = self.folder / "builds"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def copies(self) -> list[str]:
        return [path.name for path in (self.folder / ".penstock").glob("compiled-*")]


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    return ToyProject(tmp_path)


def test_the_first_call_compiles_and_the_second_reuses(project: ToyProject) -> None:
    code, output, errors = project.call("hello", "--there")
    assert code == 0, errors
    assert output == f"{project.copies()[0]} hello --there\n"
    assert "compiling" in errors
    assert project.call("again") == (0, f"{project.copies()[0]} again\n", "")
    assert project.build_count() == 1


def test_an_edit_of_a_compiled_file_compiles_again_and_removes_the_old_copy(
    project: ToyProject,
) -> None:
    project.call()
    old = project.copies()
    (project.package / "wire" / "octets.py").write_text("ONE = 2\n")
    project.call()
    assert project.build_count() == 2
    assert len(project.copies()) == 1
    assert project.copies() != old


def test_interpreted_files_come_and_go_without_a_build(project: ToyProject) -> None:
    project.call()
    (project.package / "fresh.py").write_text("WORD = 'fresh'\n")
    (project.package / "__main__.py").write_text("from penstock.fresh import WORD\nprint(WORD)\n")
    assert project.call() == (0, "fresh\n", "")
    (project.package / "fresh.py").unlink()
    code, _, errors = project.call()
    assert code != 0
    assert "No module named 'penstock.fresh'" in errors
    assert project.build_count() == 1


def test_a_copy_in_use_is_not_removed(project: ToyProject) -> None:
    waiting = "import sys\nprint('up', flush=True)\nsys.stdin.read()\n"
    (project.package / "__main__.py").write_text(waiting)
    with project.start() as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        (project.package / "wire" / "octets.py").write_text("ONE = 2\n")
        (project.package / "__main__.py").write_text(TOY_MAIN)
        project.call()
        assert len(project.copies()) == 2
        running.communicate(timeout=60)
    (project.package / "wire" / "octets.py").write_text("ONE = 3\n")
    project.call()
    assert len(project.copies()) == 1


def test_concurrent_first_calls_build_once(project: ToyProject) -> None:
    processes = [project.start(str(number)) for number in range(4)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert outputs == [f"{project.copies()[0]} {number}\n" for number in range(4)]
    assert project.build_count() == 1


def test_pure_skips_the_build(project: ToyProject) -> None:
    assert project.call("x", PENSTOCK_PURE="1") == (0, "src x\n", "")
    assert project.build_count() == 0


def test_without_a_compiler_it_says_so_in_two_lines_and_runs_pure(project: ToyProject) -> None:
    # A PATH with the few programs the launcher needs, and no compiler among them.
    programs = project.folder / "programs"
    programs.mkdir()
    for name in ("sh", "dirname"):
        (programs / name).symlink_to(shutil.which(name) or name)
    code, output, errors = project.call("x", PATH=str(programs), CC="")
    assert (code, output) == (0, "src x\n")
    assert len(errors.splitlines()) == 2
    assert "no C compiler" in errors
    assert "pure Python build" in errors


def test_a_failed_build_is_loud_runs_pure_and_is_not_tried_again_for_the_same_sources(
    project: ToyProject,
) -> None:
    (project.folder / "broken").touch()
    code, output, errors = project.call("x")
    assert (code, output) == (0, "src x\n")
    assert "the toy compiler failed" in errors
    (project.folder / "broken").unlink()
    code, output, errors = project.call("x")
    assert (code, output) == (0, "src x\n")
    assert "compilation FAILED" in errors
    assert project.build_count() == 0


def test_require_compiled_refuses_the_pure_build(project: ToyProject) -> None:
    (project.folder / "broken").touch()
    code, output, errors = project.call("x", PENSTOCK_REQUIRE_COMPILED="1")
    assert (code, output) == (1, "")
    assert "PENSTOCK_REQUIRE_COMPILED=1" in errors


def test_without_a_python_it_says_what_it_needs(project: ToyProject) -> None:
    shutil.rmtree(project.folder / ".venv")
    code, _, errors = project.call(PENSTOCK_PYTHON="/nonexistent/python")
    assert code == 1
    assert "needs Python 3.11 or newer" in errors


def test_asking_for_help_with_the_tests_installs_and_builds_nothing(project: ToyProject) -> None:
    shutil.rmtree(project.folder / ".venv")
    code, output, errors = project.call("test", "--help")
    assert (code, errors) == (0, "")
    assert output.startswith("Usage: ./penstock test")
    assert not (project.folder / ".venv").exists()
    assert project.build_count() == 0


@pytest.mark.parametrize("command", sorted(launch.EXTRAS))
def test_asking_for_help_needs_no_extras(command: str) -> None:
    assert launch.extras_of([command]) == launch.EXTRAS[command]
    assert launch.extras_of([command, "something", "--help"]) == ()


def test_the_command_of_the_environment_runs_the_compiled_copy_too(project: ToyProject) -> None:
    link = "import launch; launch.link_command()"
    subprocess.run([sys.executable, "-c", link], cwd=project.folder / "tools", check=True)
    command = project.folder / ".venv" / "bin" / "penstock"
    environment = {**os.environ, "CC": sys.executable, "PYTHONPATH": str(project.folder / "src")}
    for name in ("PENSTOCK_PURE", "PENSTOCK_REQUIRE_COMPILED", "PENSTOCK_TEST_BUILDS"):
        environment.pop(name, None)
    output = subprocess.check_output([command, "x"], env=environment, text=True)
    assert output == f"{project.copies()[0]} x\n"


def begun(project: ToyProject) -> list[int]:
    """The processes of the long build that has begun last."""
    log = project.folder / "processes"
    wait_until(lambda: log.exists() and log.read_text().endswith("\n"))
    return [int(word) for word in log.read_text().splitlines()[-1].split()]


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_at_work(pid: int) -> bool:
    """A process that has ended, and whose parent does not know yet, is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_a_build_ends_the_compilers_too(
    project: ToyProject, number: signal.Signals
) -> None:
    (project.folder / "setup.py").write_text(LONG_SETUP)
    with project.start("x") as running:
        processes = begun(project)
        assert all(map(is_at_work, processes))
        running.send_signal(number)
        _, errors = running.communicate(timeout=SECONDS)
        assert not any(map(is_at_work, processes))
    assert running.returncode == -number
    assert "Traceback" not in errors
    # And nothing is left that the next call would stumble over.
    (project.folder / "at-work").unlink()
    (project.folder / "go").touch()
    assert project.call("x")[:2] == (0, f"{project.copies()[0]} x\n")


def test_after_a_launcher_was_killed_the_next_call_waits_for_its_compiler(
    project: ToyProject,
) -> None:
    (project.folder / "setup.py").write_text(LONG_SETUP)
    with project.start("first") as first:
        processes = begun(project)
        first.kill()
        first.communicate(timeout=SECONDS)
    with project.start("second") as second:
        assert second.stderr is not None
        assert "another call is setting up this directory" in second.stderr.readline()
        assert all(map(is_at_work, processes))
        (project.folder / "go").touch()
        output, errors = second.communicate(timeout=SECONDS)
    assert second.returncode == 0, errors
    assert output == f"{project.copies()[0]} second\n"
    assert not (project.folder / "collision").exists()
    assert len((project.folder / "processes").read_text().splitlines()) == 2


def test_a_build_goes_on_when_its_caller_has_signals_ignored(project: ToyProject) -> None:
    """As nohup does."""
    (project.folder / "setup.py").write_text(LONG_SETUP)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = project.start("x")
    finally:
        signal.signal(signal.SIGHUP, before)
    with running:
        begun(project)
        running.send_signal(signal.SIGHUP)
        (project.folder / "go").touch()
        output, errors = running.communicate(timeout=SECONDS)
    assert (running.returncode, output) == (0, f"{project.copies()[0]} x\n"), errors
