"""The Dockerfile and the compose example, as far as they can be tried without Docker."""

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.served import launch, ready_facts

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "examples" / "docker"
SECONDS = 60.0


def instruction(name: str) -> list[str]:
    """The words of an instruction in its JSON form."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    [found] = re.findall(rf"^{name}[^\[\n]*(\[.*\])$", text, re.MULTILINE)
    words = json.loads(found)
    assert isinstance(words, list)
    return words


def served_words(data: Path) -> list[str]:
    """The entry point's options, on free ports of loopback and with another data directory."""
    program, command, *options = instruction("ENTRYPOINT")
    assert (program, command) == ("/opt/penstock/bin/penstock", "serve")
    replaced = {"0.0.0.0": "127.0.0.1", "5672": "0", "15672": "0", "/var/lib/penstock": str(data)}
    assert set(replaced) <= set(options)
    return [replaced.get(word, word) for word in options]


def test_the_entry_point_serves_and_its_health_check_knows(tmp_path: Path) -> None:
    with launch(*served_words(tmp_path / "data")) as process:
        address = ready_facts(process)["http"]
        _, flag, program = instruction("HEALTHCHECK")
        assert "127.0.0.1:15672" in program
        check = [sys.executable, flag, program.replace("127.0.0.1:15672", address)]
        assert subprocess.run(check, timeout=SECONDS, check=False).returncode == 0
        process.terminate()
        assert process.wait(SECONDS) == 0
        failed = subprocess.run(check, timeout=SECONDS, check=False, stderr=subprocess.DEVNULL)
        assert failed.returncode != 0


def test_the_files_that_the_dockerfile_copies_exist_and_are_not_ignored() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in kept


def test_the_compose_file_names_files_that_exist() -> None:
    # Those that its reader makes, because they hold passwords.
    made = {"./definitions.json", "./monitor-password"}
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    sources = re.findall(r"^ +- (\.[^:\s]*):", text, re.MULTILINE)
    assert made < set(sources)
    for source in sources:
        assert source in made or (DOCKER / source).exists(), source
    [build] = re.findall(r"^ +build: (\S+)$", text, re.MULTILINE)
    assert (DOCKER / build / "Dockerfile").exists()


def test_the_users_of_the_example_can_be_scraped_with(tmp_path: Path) -> None:
    definitions = tmp_path / "definitions.json"
    text = (DOCKER / "definitions.example.json").read_text(encoding="utf-8")
    definitions.write_text(text.replace("WRITE ANOTHER PASSWORD HERE", "secret"))
    scraping = (DOCKER / "prometheus.yml").read_text(encoding="utf-8")
    [user] = re.findall(r"^ +username: (\S+)$", scraping, re.MULTILINE)
    options = ["--definitions", str(definitions)]
    with launch(*served_words(tmp_path / "data"), *options) as process:
        address = ready_facts(process)["http"]
        answer = httpx.get(f"http://{address}/metrics", auth=(user, "secret"), timeout=SECONDS)
        assert answer.status_code == 200, answer.text
        process.terminate()
        process.wait(SECONDS)
