"""Parses definitions in RabbitMQ's JSON form into commands.

The form is that of RabbitMQ's `/api/definitions` and of `rabbitmqctl export_definitions`, whole
(users, virtual hosts and what is in them) or of one virtual host, whose rows name none. What this
broker cannot do is left out with a warning; keys it does not know are ignored, because every
release of RabbitMQ adds some.

The commands come in an order that always applies: virtual hosts, users, permissions, policies,
exchanges, which queues are replicas, queues, bindings, and limits last, because a virtual host may
hold more queues than a limit that was set later. `rehearsal` checks them against a broker's state,
`importing` applies them.
"""

from dataclasses import dataclass
from typing import Final

from penstock.broker.access.new_password import NewPasswords
from penstock.broker.definitions.operator_rows import (
    global_parameter_command,
    parameter_command,
    policy_command,
    user_limits_command,
    vhost_command,
)
from penstock.broker.definitions.rows import Row, rows_of
from penstock.broker.definitions.users import user_command
from penstock.broker.names import SERVER_NAMED_PREFIX
from penstock.broker.queues.following import REPLICA_COMPONENT
from penstock.broker.topology import (
    BindExchange,
    BindQueue,
    BrokerCommand,
    DeclareExchange,
    DeclareQueue,
    SetParameter,
    SetPermissions,
    SetTopicPermissions,
    VhostCommand,
)

# Lists that only the definitions of a whole broker have.
_WHOLE: Final = ("vhosts", "users", "permissions", "topic_permissions", "global_parameters")
_READ: Final = ("parameters", "policies", "exchanges", "queues", "bindings")
# These describe the file, not a broker.
_REMARKS: Final = frozenset(
    {
        "rabbit_version",
        "rabbitmq_version",
        "product_name",
        "product_version",
        "rabbitmq_definition_format",
        "original_vhost_name",
        "original_cluster_name",
        "explanation",
        "metadata",
    }
)
# RabbitMQ's name for the cluster itself; it is in every export and means nothing elsewhere.
_CLUSTER_IDENTITY: Final = "internal_cluster_id"
# A systematic mistake repeats in every row; one screen of mistakes is enough to see it.
_MISTAKES_SHOWN_MAX: Final = 100

# A thing that rows may refer to: its kind, its virtual host ("" for none) and its name.
Identity = tuple[str, str, str]


class DefinitionsRefused(Exception):
    """The definitions are wrong; nothing was applied. `mistakes` has all of it."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes: list[str] = mistakes
        shown = mistakes[:_MISTAKES_SHOWN_MAX]
        if len(mistakes) > len(shown):
            shown = [*shown, f"and {len(mistakes) - len(shown)} more"]
        count = "1 error" if len(mistakes) == 1 else f"{len(mistakes)} errors"
        super().__init__("\n  ".join([f"the definitions have {count}:", *shown]))


@dataclass(frozen=True, slots=True)
class BrokerStep:
    path: str
    command: BrokerCommand


@dataclass(frozen=True, slots=True)
class VhostStep:
    path: str
    vhost: str
    command: VhostCommand


Step = BrokerStep | VhostStep


class Definitions:
    """What a file says: commands in order, and what is wrong with it. Held during an import."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.mistakes: list[str] = []
        self.warnings: list[str] = []
        # Named in the file but wrong there: what refers to them is not a mistake of its own.
        self.faulty: set[Identity] = set()


def parse(definitions: object, vhost: str | None, passwords: NewPasswords) -> Definitions:
    """Parse definitions of a whole broker, or of one virtual host into `vhost`.

    Never raises: look at `mistakes`. Passwords in plain text are hashed here, 20 ms each.
    """
    found = Definitions()
    if not isinstance(definitions, dict):
        found.mistakes.append("the definitions must be a JSON object with lists such as `queues`")
        return found
    _check_sections(definitions, vhost, found)
    if vhost is None:
        _read_vhosts(definitions, found)
        _read_users(definitions, found, passwords)
        _read_permissions(definitions, found)
        _read_topic_permissions(definitions, found)
        _read_global_parameters(definitions, found)
    _read_policies(definitions, vhost, found)
    _read_exchanges(definitions, vhost, found)
    parameters = _read_parameters(definitions, vhost, found)
    # A queue that exists without its parameter is not a replica, and cannot become one.
    found.steps.extend([step for step in parameters if replica_made_by(step.command)])
    _read_queues(definitions, vhost, found)
    _read_bindings(definitions, vhost, found)
    found.steps.extend([step for step in parameters if not replica_made_by(step.command)])
    return found


def _check_sections(definitions: dict[str, object], vhost: str | None, found: Definitions) -> None:
    for section in definitions:
        if section in _WHOLE and vhost is not None:
            found.mistakes.append(
                f"{section}: only allowed in the definitions of a whole broker, not of one vhost"
            )
        elif section not in _WHOLE and section not in _READ and section not in _REMARKS:
            found.warnings.append(f"{section}: unknown section, ignored")


def _vhost_of(row: Row, vhost: str | None) -> str:
    """Where a row goes. RabbitMQ's export of one virtual host names it in some rows; the one that
    is imported into may be another.
    """
    if vhost is not None:
        return vhost
    if "vhost" not in row.table:
        row.complain(
            "vhost",
            "is missing; if these are the definitions of one vhost, import them into a vhost",
        )
        return ""
    return row.name("vhost")


def _read_vhosts(definitions: dict[str, object], found: Definitions) -> None:
    for row in rows_of(definitions, "vhosts", found.mistakes):
        command = vhost_command(row)
        if row.faulty:
            found.faulty.add(("vhost", "", command.name))
        else:
            found.steps.append(BrokerStep(row.path, command))


def _read_users(
    definitions: dict[str, object], found: Definitions, passwords: NewPasswords
) -> None:
    for row in rows_of(definitions, "users", found.mistakes):
        command = user_command(row, passwords)
        limits = user_limits_command(row, command.name)
        if row.faulty:
            found.faulty.add(("user", "", command.name))
            continue
        found.steps.append(BrokerStep(row.path, command))
        if limits is not None:
            found.steps.append(BrokerStep(f"{row.path}.limits", limits))


def _read_permissions(definitions: dict[str, object], found: Definitions) -> None:
    for row in rows_of(definitions, "permissions", found.mistakes):
        command = SetPermissions(
            row.text("user"),
            _vhost_of(row, None),
            row.pattern("configure"),
            row.pattern("write"),
            row.pattern("read"),
        )
        if not row.faulty:
            found.steps.append(BrokerStep(row.path, command))


def _read_topic_permissions(definitions: dict[str, object], found: Definitions) -> None:
    for row in rows_of(definitions, "topic_permissions", found.mistakes):
        command = SetTopicPermissions(
            row.text("user"),
            _vhost_of(row, None),
            row.name("exchange"),
            row.pattern("write"),
            row.pattern("read"),
        )
        if not row.faulty:
            found.steps.append(BrokerStep(row.path, command))


def _read_global_parameters(definitions: dict[str, object], found: Definitions) -> None:
    for row in rows_of(definitions, "global_parameters", found.mistakes):
        command = global_parameter_command(row)
        if not row.faulty and command.name != _CLUSTER_IDENTITY:
            found.steps.append(BrokerStep(row.path, command))


def _read_policies(definitions: dict[str, object], vhost: str | None, found: Definitions) -> None:
    for row in rows_of(definitions, "policies", found.mistakes):
        place = _vhost_of(row, vhost)
        command = policy_command(row)
        if not row.faulty:
            found.steps.append(VhostStep(row.path, place, command))


def _read_exchanges(definitions: dict[str, object], vhost: str | None, found: Definitions) -> None:
    for row in rows_of(definitions, "exchanges", found.mistakes):
        place = _vhost_of(row, vhost)
        command = DeclareExchange(
            row.name("name"),
            row.text("type"),
            durable=row.flag("durable"),
            auto_delete=row.flag_or("auto_delete", False),
            # `rabbitmqctl export_definitions` leaves it out.
            internal=row.flag_or("internal", False),
            arguments=row.arguments("arguments"),
        )
        if row.faulty:
            found.faulty.add(("exchange", place, command.name))
        else:
            found.steps.append(VhostStep(row.path, place, command))


def _read_queues(definitions: dict[str, object], vhost: str | None, found: Definitions) -> None:
    for row in rows_of(definitions, "queues", found.mistakes):
        place = _vhost_of(row, vhost)
        name = row.name("name")
        if not name and not row.faulty:
            row.complain("name", "must not be empty")
        command = DeclareQueue(
            name,
            durable=row.flag("durable"),
            auto_delete=row.flag_or("auto_delete", False),
            arguments=row.arguments("arguments"),
            server_named=name.startswith(SERVER_NAMED_PREFIX),
        )
        if row.faulty:
            found.faulty.add(("queue", place, name))
        else:
            found.steps.append(VhostStep(row.path, place, command))


def _read_bindings(definitions: dict[str, object], vhost: str | None, found: Definitions) -> None:
    for row in rows_of(definitions, "bindings", found.mistakes):
        place = _vhost_of(row, vhost)
        source = row.name("source")
        destination = row.name("destination")
        key = row.name("routing_key")
        arguments = row.arguments("arguments")
        kind = row.text("destination_type")
        if kind not in {"queue", "exchange", ""}:
            row.complain("destination_type", f"must be 'queue' or 'exchange', not '{kind}'")
        if row.faulty:
            continue
        if not source and destination == key:
            continue  # every queue has this one by itself
        if kind == "queue":
            command: VhostCommand = BindQueue(destination, source, key, arguments)
        else:
            command = BindExchange(destination, source, key, arguments)
        found.steps.append(VhostStep(row.path, place, command))


def _read_parameters(
    definitions: dict[str, object], vhost: str | None, found: Definitions
) -> list[VhostStep]:
    """They are not yet in `found`."""
    steps: list[VhostStep] = []
    for row in rows_of(definitions, "parameters", found.mistakes):
        place = _vhost_of(row, vhost)
        command = parameter_command(row)
        if not row.faulty:
            steps.append(VhostStep(row.path, place, command))
    return steps


def replica_made_by(command: VhostCommand) -> str:
    """The name of the queue; empty for a command that does not say what a queue follows."""
    if isinstance(command, SetParameter) and command.component == REPLICA_COMPONENT:
        return command.name
    return ""
