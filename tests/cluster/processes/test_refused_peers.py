"""Servers and clients that do not belong to a cluster: refused, named, and the others go on.

Another version of the protocol and other clocks cannot be had with one program on one machine;
`tests/cluster/test_links.py` has them. Other settings are in `test_levels.py`.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from penstock.cluster.member import Member
from penstock.server.cluster_directory import FOLDER, KEY_NAME, MEMBER_NAME
from tests.cluster.processes.servers import (
    KEY,
    OTHER_KEY,
    ClusterServer,
    RunningCluster,
    format_member,
    free_ports,
    member_rows,
    penstock,
    running_cluster,
    says,
)
from tests.cluster.processes.traffic import QUEUE, drain_bodies, parameters, publish

pytestmark = pytest.mark.timeout(900)

PEER_CLASS = 61440
METHOD_FRAME = 1
FRAME_END = b"\xce"
COMMAND_INVALID = 503
NOT_IMPLEMENTED = 540


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One for the module: none of these may change anything in it."""
    with running_cluster(tmp_path_factory.mktemp("serving"), 3) as cluster:
        cluster.start().whole_root()
        yield cluster


@pytest.fixture
def rogue(serving: RunningCluster, tmp_path: Path) -> Iterator[ClusterServer]:
    """A server that does not belong to them; the test formats it."""
    [port, http_port] = free_ports(2)
    server = ClusterServer("d", tmp_path / "rogue", port, http_port)
    yield server
    server.kill()


def goes_on(cluster: RunningCluster, body: bytes) -> None:
    """Everybody is in sync, and clients are served."""
    cluster.whole_root()
    publish(cluster, body)
    assert drain_bodies(cluster) == [body]


def test_openamq_c33_a_server_with_another_key_is_refused_and_both_ends_say_so(
    serving: RunningCluster, rogue: ClusterServer
) -> None:
    """Its cluster is another one too: the addresses of its members lead to this one."""
    members = [*serving.members, Member("d", f"127.0.0.1:{rogue.port}")]
    format_member(rogue.data, "d", members, OTHER_KEY)
    rogue.start()
    says(serving, rogue, "peer link closed", "server=a", "key")
    says(serving, serving["a"], "does not have the key of this cluster")
    assert rogue.page("/health/ready")[0] == 503
    goes_on(serving, b"after another key")


def test_a_server_that_is_not_a_member_is_refused_though_it_has_the_key(
    serving: RunningCluster, rogue: ClusterServer
) -> None:
    members = [*serving.members, Member("d", f"127.0.0.1:{rogue.port}")]
    format_member(rogue.data, "d", members, KEY)
    rogue.start()
    says(serving, rogue, "peer link closed", "'d' is not a member of this cluster")
    says(serving, serving["a"], "'d' is not a member of this cluster")
    assert {row["name"] for row in member_rows(serving.root().status())} == {"a", "b", "c"}
    goes_on(serving, b"after a stranger")


def test_a_second_server_with_the_name_of_a_member_is_refused(
    serving: RunningCluster, rogue: ClusterServer
) -> None:
    rogue.name = "c"
    members = [*serving.members[:2], Member("c", f"127.0.0.1:{rogue.port}")]
    format_member(rogue.data, "c", members, KEY)
    rogue.start()
    says(serving, rogue, "peer link closed", "server=a", "'c'")
    goes_on(serving, b"after a second c")
    assert rogue.role() != "active"


def test_a_data_directory_serves_one_process_at_its_own_address(
    serving: RunningCluster, rogue: ClusterServer
) -> None:
    rogue.data = serving["b"].data
    code, said = rogue.refused()
    assert code != 0
    assert "another" in said
    members = [*serving.members[:2], Member("c", f"127.0.0.1:{rogue.port}")]
    rogue.data = rogue.data.with_name("elsewhere")
    format_member(rogue.data, "c", members, KEY)
    code, said = rogue.refused(f"--port={rogue.port + 1}")
    assert code == 2
    assert f"127.0.0.1:{rogue.port}" in said
    goes_on(serving, b"after a second process")


def test_format_changes_nothing_in_a_directory_that_holds_data(serving: RunningCluster) -> None:
    server = serving["c"]
    folder = server.data / FOLDER
    before = {name: (folder / name).read_bytes() for name in (KEY_NAME, MEMBER_NAME)}
    words = [f"--member={member.name}={member.address}" for member in serving.members]
    code, said = penstock(
        "cluster",
        "format",
        f"--data={server.data}",
        "--name=c",
        f"--key-file={serving.key_file}",
        *words,
    )
    assert code == 2
    assert "Nothing was changed" in said
    # What it promises goes on changing: it runs.
    assert before == {name: (folder / name).read_bytes() for name in before}
    goes_on(serving, b"after format")


def test_openamq_c33_an_ordinary_client_does_not_log_in_as_a_server(
    serving: RunningCluster,
) -> None:
    chosen = parameters(serving.whole_root())
    chosen.credentials = pika.PlainCredentials("cluster", KEY.decode())
    with pytest.raises(
        (pika.exceptions.AuthenticationError, pika.exceptions.ProbableAuthenticationError)
    ):
        pika.BlockingConnection(chosen)
    goes_on(serving, b"after a login")


@pytest.mark.parametrize(
    ("method", "code"),
    [(10, COMMAND_INVALID), (20, COMMAND_INVALID), (30, COMMAND_INVALID), (99, NOT_IMPLEMENTED)],
)
def test_an_ordinary_client_does_not_use_the_methods_of_servers(
    serving: RunningCluster, method: int, code: int
) -> None:
    publish(serving, queue=QUEUE)

    def use(root: ClusterServer) -> None:
        connection = pika.BlockingConnection(parameters(root))
        channel = connection.channel()
        payload = struct.pack(">HH", PEER_CLASS, method) + b"\x00\x00\x00\x00garbage"
        frame = struct.pack(">BHL", METHOD_FRAME, channel.channel_number, len(payload))
        connection._impl._transport.write(frame + payload + FRAME_END)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            channel.queue_declare(QUEUE, passive=True)
        assert caught.value.reply_code == code

    serving.while_root_stays(use)
    goes_on(serving, b"after method %d" % method)


@pytest.mark.parametrize("wrong", ["key", "vhost"])
def test_openamq_c33_a_client_with_a_wrong_key_or_virtual_host_is_refused(
    serving: RunningCluster, wrong: str
) -> None:

    def use(root: ClusterServer) -> None:
        chosen = parameters(root)
        if wrong == "key":
            chosen.client_properties = {"cluster_key": "00" * 32}
        else:
            chosen.virtual_host = "elsewhere"
        with pytest.raises(pika.exceptions.AMQPError) as caught:
            pika.BlockingConnection(chosen)
        assert wrong in repr(caught.value)

    serving.while_root_stays(use)
