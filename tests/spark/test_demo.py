"""`penstock demo` with Spark: its archive and its audit."""

from __future__ import annotations

import pytest

from tests.cli.demo_process import row_of, run_demo


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_spark_archives_every_confirmed_message_and_its_audit_agrees_with_the_clients() -> None:
    done = run_demo("--quick", seconds=390)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = done.stdout[done.stdout.index("verdict") :]
    for name in ("confirmed, per queue", "lost", "duplicated, flagged", "duplicated, not flagged"):
        by_clients, by_spark = row_of(verdict, name)
        assert by_clients == by_spark, verdict
    assert row_of(verdict, "confirmed to the stream")[0] == "6,000"
    assert row_of(verdict, "archive, messages")[1] == "6,000"
