"""A checker that never complains proves nothing: each defect here must be found, and named."""

import re

import pytest

from penstock.simulation.host import Host
from penstock.simulation.run import run_seed
from tests.simulation import planted, planted_amqp10, planted_books, planted_storage

SEEDS = range(16)
# Seeds of a scenario in which a rare defect shows, when the first dozen are too few.
TELLING_SEEDS = {"ProgressForgettingHost": (0, 19, 25), "HastyAppendingHost": (9, 10, 11)}

# A queue holds something else than the journal says, or there is something that it does not say.
RECOVERED_OTHERWISE = r"held b'.*' at \d+, but b'.*' was recovered"
# The broken broker, the scenario that shows it, and what must be complained of (as a pattern).
DEFECTS = [
    (planted.FlagForgettingHost, "stormy", "without the flag"),
    (planted.ConfirmRepeatingHost, "plain", r"heard confirm \d+ twice"),
    (planted.ConfirmLosingHost, "plain", "never received all its confirms"),
    (planted.DeliveryLosingHost, "plain", r"got delivery tag \d+ behind \d+"),
    (planted.BodyChangingHost, "plain", "that was never published"),
    (planted.AlarmLosingHost, "alarms", "neither settled nor in"),
    (planted.LossIgnoringHost, "plain", "left behind"),
    (planted.WakingHost, "plain", "320 CONNECTION_FORCED - because"),
    (planted.RouteLosingHost, "plain", "never reached"),
    (planted.DoublingHost, "plain", r"enqueued b'.*' twice"),
    (planted.OvertakingHost, "plain", "out of order"),
    (planted_storage.LyingHost, "durable", "is lost from"),
    (planted_storage.DisorderlyHost, "durable-heavy", "is missing"),
    (planted_storage.SplittingHost, "durable-transactions", RECOVERED_OTHERWISE),
    (
        planted_storage.HastyHost,
        "durable-heavy",
        r"(?s)the definitions were .*, but .* were recovered",
    ),
    (planted_storage.RangeForgettingHost, "durable-heavy", RECOVERED_OTHERWISE),
    (planted_storage.ForgetfulHost, "durable", "without the flag"),
    (planted_storage.LyingHost, "streams", "is in no stream"),
    (
        planted_storage.TopicForgettingHost,
        "administration",
        r"was told that \('topic permissions'",
    ),
    (planted_storage.LyingHost, "administration", "was told that"),
    (planted_books.PublisherForgettingHost, "streams", r"is at .* and at \d+ of"),
    (planted_books.CursorPushingHost, "streams", "ahead of what was settled"),
    (planted_books.DelayLosingHost, "delayed", "is lost from"),
    (planted_books.HurryingHost, "delayed", "before its delay"),
    (planted_storage.LyingHost, "durable-acknowledgements", "its transaction was committed"),
    (planted_books.CommittingHost, "durable-acknowledgements", "neither settled nor in"),
    (planted_storage.RangeForgettingHost, "careless", RECOVERED_OTHERWISE),
    (planted_books.LeaseCopyingHost, "leases", "was settled, but is back"),
    (planted_books.LeaseDroppingHost, "leases", "is in no lease"),
    (planted_books.LeaseCopyingHost, "leases", r"is in work and in "),
    (planted_books.RowForgettingHost, "sinks", "was published twice"),
    (planted_storage.NoteForgettingHost, "sinks", r"\d+ is damaged, although it was durable"),
    (planted_books.StageLeakingHost, "sinks", "does not count"),
    (planted_books.StageDroppingHost, "sinks", "was committed, but is not in"),
    (planted_books.ProgressForgettingHost, "sinks", "was published twice"),
    (planted_books.MoveTearingHost, "queue-moves", "is in none of"),
    (planted_books.MoveCopyingHost, "queue-moves", " and in "),
    (planted_books.AppendLosingHost, "moving", "is in no stream"),
    (planted_books.HastyAppendingHost, "moving", r"is at .* and in "),
    (planted_books.AppendRepeatingHost, "moving", r"is at .* and at \d+ of"),
    (planted_books.TransactionTearingHost, "moving", "receipts and moves differ"),
    (planted_amqp10.LateSettlingHost, "amqp10", "which it does not hold"),
    (planted_amqp10.DurableLateSettlingHost, "amqp10-durable", "which it does not hold"),
    (planted_amqp10.DurableLateSettlingHost, "amqp10-transactions", "which it does not hold"),
    (planted_amqp10.DispositionLosingHost, "amqp10", "never received all its confirms"),
    (planted_amqp10.OutcomeForgettingHost, "amqp10-resuming", r"enqueued b'.*' twice"),
    (planted_amqp10.RollbackIgnoringHost, "amqp10-transactions", "was rolled back and reached"),
]


@pytest.mark.parametrize(
    ("host", "scenario", "complaint"),
    DEFECTS,
    ids=[f"{host.__name__}-{scenario}" for host, scenario, _ in DEFECTS],
)
def test_a_planted_defect_is_found(host: type[Host], scenario: str, complaint: str) -> None:
    found: list[str] = []
    for seed in TELLING_SEEDS.get(host.__name__, SEEDS):
        found += run_seed(seed, scenario, make_host=host).violations
        if any(re.search(complaint, violation) for violation in found):
            return
    pytest.fail(f"not found: {found[:5]}")


def test_a_defect_that_raises_is_a_violation_and_not_a_crash() -> None:
    verdict = run_seed(0, "plain", make_host=RaisingHost)
    assert not verdict.is_good
    assert "a planted failure" in verdict.violations[0]


class RaisingHost(Host):
    def stop(self) -> None:
        raise AssertionError("never called by a run")

    def set_alarm(self, reason: str) -> None:
        raise RuntimeError("a planted failure")
