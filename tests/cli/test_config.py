"""`penstock config`: every error is listed, and what would be in force."""

import json
from pathlib import Path

from tests.cli.operator_process import Operator


def test_a_valid_file_shows_what_it_and_the_environment_change(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[listen]\nport = 5673\n[log]\nlevel = 'debug'\n", "utf-8")
    operator = Operator("", tmp_path, PENSTOCK_LOG_LEVEL="error", PENSTOCK_TLS_HOST="::1,127.0.0.1")
    text = operator.done("config", "check", str(file))
    assert [line.split() for line in text.splitlines()[1:-1]] == [
        ["listen.port", "5673", "file"],
        ["tls.host", "::1,", "127.0.0.1", "PENSTOCK_TLS_HOST"],
        ["log.level", "error", "PENSTOCK_LOG_LEVEL"],
    ]
    rows = operator.rows("config", "show", str(file))
    assert {"key": "limits.connections", "value": 65536, "source": "default"} in rows


def test_every_error_of_file_and_environment_is_listed(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[listen]\nport = 'x'\nnonesuch = 1\n", "utf-8")
    operator = Operator(
        "", tmp_path, PENSTOCK_LOG_LEVEL="loud", PENSTOCK_HTTP_PRT="1", PENSTOCK_DATA_LEDGER="maybe"
    )
    result = operator.run("config", "check", str(file))
    assert result.returncode == 1
    for place in (
        "listen.port",
        "listen.nonesuch",
        "PENSTOCK_LOG_LEVEL",
        "PENSTOCK_HTTP_PRT",
        "PENSTOCK_DATA_LEDGER",
    ):
        assert f"  {place}: " in result.stderr
    assert operator.run("serve", "--config", str(file)).returncode == 2
    answer = json.loads(operator.run("config", "check", str(file), "--json").stdout)
    assert answer["valid"] is False and len(answer["errors"]) == 6


def test_files_that_the_configuration_names_are_read(tmp_path: Path) -> None:
    (tmp_path / "definitions.json").write_text("[]", "utf-8")
    file = tmp_path / "penstock.toml"
    text = '[tls]\ncertificate = "nonesuch.pem"\n[definitions]\nfile = "definitions.json"\n'
    file.write_text(text, "utf-8")
    result = Operator("", tmp_path).run("config", "check", str(file))
    assert result.returncode == 1
    assert "nonesuch.pem" in result.stderr and "definitions.json" in result.stderr
