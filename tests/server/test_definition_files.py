"""Definitions through the doors: `penstock serve --definitions`, the configuration, the Broker."""

import json
from pathlib import Path

import pytest
from pika.exceptions import ChannelClosedByBroker

from penstock import Broker
from penstock.broker.definitions.parsing import DefinitionsRefused
from penstock.broker.errors import NotFound
from tests.server.opened import pika_connection
from tests.support.served import END_SECONDS, Served, amqp_port, ready_facts

RABBITMQ = Path(__file__).parent.parent / "broker" / "definitions" / "definitions_of_rabbitmq.json"
WRONG_QUEUE = {"vhost": "/", "name": "q", "durable": True, "arguments": {"x-max-length": "1"}}
WRONG: dict[str, object] = {
    "queues": [WRONG_QUEUE],
    "exchanges": [{"vhost": "/", "name": "e", "type": "direct"}],
    "policies": [{"vhost": "/", "name": "p", "pattern": "(", "definition": {"max-length": 1}}],
}


def check_serves_rabbitmqs_objects(port: int) -> None:
    """A user of RabbitMQ's logs in with her password and finds her queue bound."""
    connection = pika_connection(f"amqp://ada:lovelace@127.0.0.1:{port}/%2F")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "an.a.key", b"hello", mandatory=True)
    assert channel.queue_declare("plain", passive=True).method.message_count == 1
    connection.close()


def test_serve_imports_a_file_before_it_is_ready(served: Served) -> None:
    check_serves_rabbitmqs_objects(served.port("--definitions", str(RABBITMQ)))
    served.latest.terminate()
    _, errors = served.latest.communicate(timeout=END_SECONDS)
    assert "definitions imported" in errors
    assert "door=startup" in errors


def test_the_configuration_names_a_file_beside_it(served: Served, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_bytes(RABBITMQ.read_bytes())
    configuration = tmp_path / "penstock.toml"
    configuration.write_text('[listen]\nport = 0\n[definitions]\nfile = "d.json"\n')
    facts = ready_facts(served.launch("--config", str(configuration)))
    check_serves_rabbitmqs_objects(amqp_port(facts))


def test_all_mistakes_are_told_and_nothing_starts(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    file.write_text(json.dumps(WRONG))
    code, errors = served.refused("--port", "0", "--definitions", str(file))
    assert code == 2
    assert f"penstock: {file}: the definitions have 3 errors:" in errors
    assert "\n  queues[0].arguments.x-max-length: " in errors
    assert "\n  exchanges[0].durable: is missing" in errors
    assert "\n  policies[0].pattern: " in errors


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot read the definitions file"),
        (b'{"queues": [,]}', "is not valid JSON: line 1, column 13"),
        (b"\xff\xfe{", "cannot read the definitions file"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_clearly(
    content: bytes | None, complaint: str, tmp_path: Path
) -> None:
    file = tmp_path / "d.json"
    if content is not None:
        file.write_bytes(content)
    with Broker() as broker, pytest.raises(DefinitionsRefused, match=complaint):
        broker.import_definitions(file)


def test_a_missing_file_ends_serve_with_its_exit_code(served: Served, tmp_path: Path) -> None:
    code, errors = served.refused("--port", "0", "--definitions", str(tmp_path / "nowhere.json"))
    assert code == 2
    assert "cannot read the definitions file" in errors


def test_a_running_broker_imports_and_exports(penstock_broker: Broker) -> None:
    assert penstock_broker.import_definitions(str(RABBITMQ)) == []
    check_serves_rabbitmqs_objects(penstock_broker.port)
    exported = penstock_broker.export_definitions()
    with Broker() as other:
        assert other.import_definitions(json.loads(json.dumps(exported))) == []
        assert other.export_definitions() == exported
        check_serves_rabbitmqs_objects(other.port)


def test_a_running_broker_imports_and_exports_one_vhost(penstock_broker: Broker) -> None:
    penstock_broker.import_definitions(RABBITMQ)
    penstock_broker.add_vhost("copy")
    orders = penstock_broker.export_definitions("orders")
    penstock_broker.import_definitions(orders, "copy")
    assert penstock_broker.export_definitions("copy")["queues"] == orders["queues"]
    assert set(penstock_broker.queue_depths("copy")) == {"new", "paid"}
    with pytest.raises(NotFound):
        penstock_broker.export_definitions("nowhere")


def test_a_running_broker_refuses_as_a_whole(penstock_broker: Broker) -> None:
    before = penstock_broker.export_definitions()
    good = {"vhost": "/", "name": "good", "durable": True}
    with pytest.raises(DefinitionsRefused) as refused:
        penstock_broker.import_definitions({**WRONG, "queues": [good, WRONG_QUEUE]})
    assert len(refused.value.mistakes) == 3
    assert penstock_broker.export_definitions() == before


def test_an_open_connection_sees_what_is_imported(penstock_broker: Broker) -> None:
    """Routes that a publisher has resolved are not used after the import."""
    channel = pika_connection(penstock_broker.url).channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"to nobody")
    penstock_broker.import_definitions(
        {
            "queues": [{"vhost": "/", "name": "q", "durable": True}],
            "bindings": [
                {
                    "vhost": "/",
                    "source": "amq.fanout",
                    "destination": "q",
                    "destination_type": "queue",
                    "routing_key": "",
                }
            ],
        }
    )
    channel.basic_publish("amq.fanout", "", b"to somebody", mandatory=True)
    assert penstock_broker.queue_depths() == {"q": 1}


def test_permissions_that_are_imported_hold_for_open_connections(penstock_broker: Broker) -> None:
    """Targets that a publisher has resolved are not used after the import."""
    channel = pika_connection(penstock_broker.url).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"allowed")
    row = {"user": "guest", "vhost": "/", "configure": ".*", "write": "", "read": ".*"}
    penstock_broker.import_definitions({"permissions": [row]})
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.basic_publish("", "q", b"refused")
