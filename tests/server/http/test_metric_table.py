"""docs/METRICS.md names every metric there is, and RabbitMQ's names are RabbitMQ's."""

import re
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from penstock.server.http.cluster_families import cluster_families
from penstock.server.http.metric_table import (
    CHANNEL_FAMILIES,
    CONNECTION_FAMILIES,
    NAME_FAMILIES,
    QUEUE_FAMILIES,
    TIME_FAMILY,
    TOTAL_FAMILIES,
)
from penstock.server.http.survey import Figures
from tests.server.http.asking import STREAM, Pages, declared, serving
from tests.server.http.test_cluster_families import STATUS

DOCUMENT = Path(__file__).parents[3] / "docs" / "METRICS.md"
# What a RabbitMQ 3.10 shows at /metrics and, with the word cluster, at /metrics/detailed.
RABBITMQS = Path(__file__).with_name("rabbitmq_metric_names.txt").read_text().split()
FAMILIES = [
    *QUEUE_FAMILIES,
    *CONNECTION_FAMILIES,
    *CHANNEL_FAMILIES,
    *NAME_FAMILIES,
    *TOTAL_FAMILIES,
    TIME_FAMILY,
]
ROW = re.compile(r"^\| `((?:rabbitmq|penstock)_\w+)` \| (\w+) \| (.+?) \|$", re.MULTILINE)


def table(pages: Pages, path: str) -> dict[str, tuple[str, str]]:
    response = pages.get(path, accept="application/openmetrics-text; version=1.0.0")
    assert response.status_code == 200, response.text
    found = {}
    for family in text_string_to_metric_families(response.text):  # type: ignore[no-untyped-call]
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        found[family.name + suffix] = (family.type, family.documentation)
    return found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, tuple[str, str]]]:
    details = "&".join(f"family={family}" for family in FAMILIES)
    with serving(tmp_path_factory.mktemp("metrics") / "data") as broker:
        declared(broker, "s", STREAM)
        pages = Pages(broker)
        return {
            path: table(pages, path)
            for path in ("/metrics", "/metrics/per-object", f"/metrics/detailed?{details}")
        }


def of_a_member() -> dict[str, tuple[str, str]]:
    """What a server in a cluster has in addition."""
    families = list(cluster_families(Figures(cluster=STATUS)))
    return {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type,
            family.documentation,
        )
        for family in families
    }


def test_the_document_names_every_metric(
    tables: dict[str, dict[str, tuple[str, str]]],
) -> None:
    totals, per_object, detailed = tables.values()
    one_by_one = {
        name: per_object[name] for name in per_object if per_object[name] != totals.get(name)
    }
    own = {
        re.sub("^(rabbitmq|penstock)_detailed_", r"\1_", name): row
        for name, row in detailed.items()
    }
    pages = (totals, one_by_one, own, of_a_member())
    expected = {(name, *row) for each in pages for name, row in each.items()}
    written = set(ROW.findall(DOCUMENT.read_text(encoding="utf-8")))
    assert sorted(expected - written) == []
    assert sorted(written - expected) == []


def test_the_document_names_every_family() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [family for family in FAMILIES if f"`{family}`" not in text] == []


def test_names_that_rabbitmq_does_not_have_do_not_begin_with_its_name(
    tables: dict[str, dict[str, tuple[str, str]]],
) -> None:
    foreign = [
        name
        for found in tables.values()
        for name in found
        if name.startswith("rabbitmq_")
        and name.replace("rabbitmq_detailed_", "rabbitmq_") not in RABBITMQS
    ]
    assert foreign == []
