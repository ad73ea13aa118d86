"""`penstock demo` as its user sees it: a root that is killed, and an account of every message."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from penstock.cli.demo import conclude, why_without_spark
from penstock.cli.demo_steps.broker import BrokerDidNotStart, DemoBroker, cpu_seconds_of
from penstock.cli.demo_steps.crash import CrashOutcome
from penstock.cli.demo_steps.spark_steps import Archived, why_no_java
from penstock.cli.demo_steps.verdict import DemoResult
from penstock.cli.loading.arrivals import Account
from penstock.cli.loading.outcome import Outcome
from penstock.spark.jobs.verdict import Audit, Offence, QueueVerdict
from tests.cli.demo_process import row_of, run_demo


def test_the_root_is_killed_and_nothing_is_lost_and_no_server_stays_behind(
    tmp_path: Path,
) -> None:
    done = run_demo("--quick", "--without-spark", "--messages=3000", f"--keep={tmp_path / 'kept'}")
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = done.stdout[done.stdout.index("verdict") :]
    assert "Every confirmed message was delivered" in verdict
    assert row_of(verdict, "confirmed") == ["6,300", ""]
    assert row_of(verdict, "lost")[0] == "0"
    assert row_of(verdict, "duplicated, not flagged")[0] == "0"
    assert 3000 <= int(row_of(verdict, "confirmed before the kill")[0].replace(",", "")) < 6000
    assert "skipped" in row_of(verdict, "archive and audit")[1]
    pids = re.findall(r"process (\d+)", done.stdout)
    assert len(pids) == 3
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
    killed = re.search(r"Root (\w) was killed", done.stdout)
    assert killed is not None
    for name in "abc":
        ledgers = list((tmp_path / "kept" / "servers" / name / "ledger").glob("*.led"))
        # One for each start.
        assert len(ledgers) == (2 if name == killed[1] else 1)
    assert len(list((tmp_path / "kept" / "clients").glob("*.led"))) == 7


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    done = run_demo("--quick", "--without-spark", f"--keep={tmp_path}")
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_missing_extra_is_named_with_how_to_install_it() -> None:
    reason = why_without_spark(asked=False, missing=["pyspark", "pandas"])
    assert "pyspark, pandas not installed" in reason
    assert "pip install 'penstock[spark]'" in reason
    assert why_without_spark(asked=False, missing=[]) == why_no_java()


def crash(account: Account, confirmed: int = 100) -> CrashOutcome:
    return CrashOutcome(
        published=100,
        confirmed=confirmed,
        sent_again=7,
        received=307,
        account=account,
        failover_seconds=1.0,
        recovery_seconds=1.5,
        seconds=2.0,
        confirmed_at_kill=50,
        roots=("a", "b"),
        cluster_cpu_seconds=None,
    )


def fine_result() -> DemoResult:
    first = Outcome(
        published=10,
        confirmed=10,
        delivered=10,
        foreign=0,
        publish_rate=1.0,
        internal_switching_rate=1.0,
        external_switching_rate=1.0,
        latency={},
        confirm_latency={},
        account=Account(received=10),
        faucet_cpu_microseconds=1.0,
        sink_cpu_microseconds=1.0,
        faults=(),
        confirming=True,
    )
    return DemoResult(first, None, crash(Account(received=300, duplicates_flagged=7)))


def concluded(result: DemoResult) -> tuple[int, str]:
    said = Console(file=io.StringIO(), width=120)
    code = conclude(result, said, 1.0)
    assert isinstance(said.file, io.StringIO)
    return code, said.file.getvalue()


def test_flagged_duplicates_break_no_promise() -> None:
    code, said = concluded(fine_result())
    assert code == 0
    assert row_of(said, "duplicated, flagged")[0] == "7"


@pytest.mark.parametrize(
    ("account", "complaint"),
    [
        (Account(lost=2), "2 confirmed messages were not received"),
        (
            Account(duplicates_unflagged=3),
            "3 messages were delivered twice without the redelivered flag",
        ),
    ],
)
def test_a_loss_or_an_unflagged_duplicate_ends_with_code_1(
    account: Account, complaint: str
) -> None:
    result = fine_result()
    result.crash = crash(account)
    code, said = concluded(result)
    assert code == 1
    assert complaint in said


def test_what_was_never_confirmed_ends_with_code_1() -> None:
    result = fine_result()
    result.crash = crash(Account(), confirmed=98)
    code, said = concluded(result)
    assert code == 1
    assert "2 messages were never confirmed" in said


def test_an_archive_that_lacks_a_confirmed_message_ends_with_code_1() -> None:
    result = fine_result()
    whole = Archived(rows=107, distinct=100, sent_again=7, octets=1000, seconds=1.0)
    result.archived = whole
    assert concluded(result)[0] == 0
    result.archived = replace(whole, distinct=99)
    code, said = concluded(result)
    assert code == 1
    assert "holds 99 distinct messages, but 100 were confirmed" in said


def audited(finding: str, **counts: int) -> Audit:
    verdict = QueueVerdict("a", "/", "q")
    for name, count in counts.items():
        setattr(verdict, name, count)
    offence = Offence(finding, "a", "/", "q", "", 0, 1, 1, "")
    return Audit([verdict], [offence], 10, 10, 1, 1, {"a": 1}, [], [])


@pytest.mark.parametrize(
    ("audit", "complaint"),
    [
        (audited("lost", lost=1), "The audit found 1 lost messages"),
        (audited("duplicate_unflagged", duplicated_unflagged=2), "found 2 unflagged messages"),
        (
            audited("never_published", phantom=1),
            "found a message that was never published: a: q: position 1",
        ),
        (
            audited("phantom", phantom=1),
            "found a message that was never published: a: q: position 1",
        ),
    ],
)
def test_what_the_audit_finds_ends_with_code_1(audit: Audit, complaint: str) -> None:
    result = fine_result()
    result.audit = audit
    code, said = concluded(result)
    assert code == 1
    assert complaint in said


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no directory")
    words = "cannot use the data directory"
    with DemoBroker(tmp_path / "data") as broker, pytest.raises(BrokerDidNotStart, match=words):
        broker.start()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_cpu_time_is_read_from_proc() -> None:
    spent = cpu_seconds_of(os.getpid())
    assert spent is not None
    assert spent > 0


def test_a_process_that_is_gone_has_no_cpu_time() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert cpu_seconds_of(child.pid) is None
