"""/api/log-level: for administrators, of a broker that writes a log."""

import io
import logging

import structlog

from penstock import Broker
from penstock.server.log_settings import LogConfiguration
from penstock.server.process_log import ProcessLog
from tests.server.http.asking import Pages, problem


def test_a_broker_inside_a_program_has_no_log_of_its_own(broker: Broker) -> None:
    body = problem(Pages(broker).get("/api/log-level"), 404)
    assert "does not write a log" in str(body["reason"])


def test_only_administrators_may_look(broker: Broker) -> None:
    broker.add_user("ann", "secret", tags=("monitoring",))
    problem(Pages(broker, ("ann", "secret")).get("/api/log-level"), 403)


def test_a_level_changes_what_is_written() -> None:
    file = io.StringIO()
    before = structlog.get_config()
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        log = ProcessLog(LogConfiguration(), file)
        structlog.get_logger().debug("unseen")
        log.set_level("debug")
        structlog.get_logger().debug("seen")
        log.set_level("error")
        structlog.get_logger().info("unseen as well")
    finally:
        structlog.configure(**before)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    assert [line.split()[-1] for line in file.getvalue().splitlines()] == ["seen"]
