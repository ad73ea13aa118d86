"""Every line of SECURITY.md's tables of threats is shown by tests, and these tests exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECURITY = (ROOT / "SECURITY.md").read_text("utf-8")
LINK = re.compile(r"\[([^\]]+)\]\((tests/[^)#]+)\)")
ROW = re.compile(r"^\| (?!threat |---)(.+?) \| (.+) \| ([^|]+) \|$", re.MULTILINE)
# What the threat model has to speak of, by a word of its line.
SUBJECTS = (
    "damaged frames",
    "HTTP requests",
    "never finished",
    "revoked certificates",
    "guessing over AMQP",
    "guessing over HTTP",
    "guessing over WebSocket",
    "SCRAM",
    "privileges",
    "topics",
    "CSRF",
    "rebinding",
    "secrets in the log",
    "definitions",
    "large messages",
    "connections and channels",
    "queues",
    "anonymous",
    "data directory",
)


def faults_of(text: str) -> list[str]:
    """What is wrong with the tables of a document."""
    faults = []
    for threat, _, tests in ROW.findall(text):
        links = LINK.findall(tests)
        if not links:
            faults.append(f"{threat}: no test is linked")
        for name, file in links:
            path = ROOT / file
            if not path.is_file():
                faults.append(f"{threat}: {file} does not exist")
            elif name.startswith("test_") and " " not in name and name != path.stem:
                if f"def {name}(" not in path.read_text("utf-8"):
                    faults.append(f"{threat}: {file} has no {name}")
    return faults


def test_every_threat_has_tests_that_exist() -> None:
    assert len(ROW.findall(SECURITY)) > 30
    assert faults_of(SECURITY) == []


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_threat_model_speaks_of(subject: str) -> None:
    model = SECURITY.partition("## Threat model\n")[2].partition("\n## ")[0]
    assert any(subject in threat for threat, _, _ in ROW.findall(model))


@pytest.mark.parametrize(
    ("tests", "fault"),
    [
        ("see above", "fire: no test is linked"),
        ("[test_it](tests/test_nowhere.py)", "fire: tests/test_nowhere.py does not exist"),
        (
            "[test_it](tests/test_threat_model.py)",
            "fire: tests/test_threat_model.py has no test_it",
        ),
    ],
)
def test_a_line_without_a_test_is_noticed(tests: str, fault: str) -> None:
    table = (
        f"| threat | what the broker does | tests |\n|---|---|---|\n| fire | burns | {tests} |\n"
    )
    assert faults_of(table) == [fault]
