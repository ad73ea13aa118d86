"""What is concluded from two builds that were measured in turn, and that they are measured so."""

import os
from pathlib import Path

import pytest

from bench.cases import MIXED_SIZE, Case
from bench.pairs import BUILDS, NEW, OLD, OLD_AGAIN, judge, main, parse_case, run_case, start_build
from bench.running import RunningBroker
from tests.bench.fake_broker import FakeBroker


class StartedFake(RunningBroker):
    """A fake broker in this process, under the name of the build that it stands for."""

    name = "fake"
    version = "0"

    def _launch(self, started: float) -> None:
        del started
        self.fake = FakeBroker()
        self.fake.__enter__()
        self.port, self.pid = self.fake.port, os.getpid()

    def data_bytes(self) -> int:
        return 0

    def stop(self) -> None:
        self.fake.__exit__(None, None, None)
        super().stop()


def test_the_ratio_is_the_median_within_pairs_beside_the_mean_of_both_old_runs() -> None:
    # A neighbour disturbs the second pair as a whole and the new build of the third.
    found = judge({OLD: [1.0, 4.0, 1.0], NEW: [0.77, 3.08, 5.0], OLD_AGAIN: [1.2, 4.8, 1.2]})
    assert found["ratios"] == [0.7, 0.7, 4.5455]
    assert (found["ratio"], found["spread"]) == (0.7, 0.2)
    assert found["is_within_limit"]


@pytest.mark.parametrize(
    ("new", "again", "wanted"), [(1.029, 1.0, True), (1.031, 1.0, False), (1.05, 1.03, True)]
)
def test_a_case_may_cost_more_by_the_limit_and_by_what_old_runs_differ(
    new: float, again: float, wanted: bool
) -> None:
    assert judge({OLD: [1.0], NEW: [new], OLD_AGAIN: [again]})["is_within_limit"] is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("mixed", Case("mixed", MIXED_SIZE, 1)),
        ("mixed/any/8", Case("mixed", MIXED_SIZE, 8)),
        ("mixed-durable", Case("mixed-durable", MIXED_SIZE, 1)),
        ("durable/1000", Case("durable", 1000, 1)),
        ("stream/100/4", Case("stream", 100, 4)),
    ],
)
def test_a_case_is_named_as_the_tables_name_it(text: str, wanted: Case) -> None:
    assert parse_case(text) == wanted


def test_an_unknown_case_and_a_folder_without_a_build_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--old", str(tmp_path), "--new", str(tmp_path)])
    assert "does not contain the package penstock" in capsys.readouterr().err
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock" / "__init__.py").touch()
    with pytest.raises(SystemExit):
        main(["--old", str(tmp_path), "--new", str(tmp_path), "--cases", "mixt"])
    assert "unknown case: mixt" in capsys.readouterr().err


def test_every_pair_measures_all_builds_anew_in_turned_order(tmp_path: Path) -> None:
    started: list[str] = []

    def start(case: Case, build: Path) -> RunningBroker:
        assert case.mode == "confirm"
        started.append(build.name)
        return StartedFake()

    builds = {name: tmp_path / name for name in BUILDS}
    (compared,) = run_case(Case("confirm", 100, 1), builds, 2, 0.2, start)
    assert started == [OLD, NEW, OLD_AGAIN, NEW, OLD_AGAIN, OLD]
    assert compared.name == "confirm/100/1"
    assert all(len(costs) == 2 and min(costs) > 0 for costs in compared.costs().values())


def test_a_build_is_started_from_its_own_folder(tmp_path: Path) -> None:
    package = tmp_path / "penstock"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("raise SystemExit('this is the build in question')")
    with pytest.raises(Exception, match="this is the build in question"):
        start_build(Case("confirm", 100, 1), tmp_path)
