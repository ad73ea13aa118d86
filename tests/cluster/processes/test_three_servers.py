"""Three servers as processes: one of them is the root, any of them may die."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.local_servers import free_ports
from penstock.client import blocking
from penstock.client.calls import declare_queue
from tests.support.certificates import authority, signed_by
from tests.support.cluster_processes import (
    ClusterProcesses,
    MemberProcess,
    cluster_processes,
    eventually,
)

LOGIN = "Basic Z3Vlc3Q6Z3Vlc3Q="


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """For tests that leave every server as it is."""
    with cluster_processes(tmp_path_factory.mktemp("shared")) as cluster:
        cluster.await_in_sync("abc")
        yield cluster


def asked(member: MemberProcess, method: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and the text of an answer."""
    request = urllib.request.Request(
        member.http + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": LOGIN, "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def others(cluster: ClusterProcesses) -> list[MemberProcess]:
    root = cluster.root()
    return [member for member in cluster.members.values() if member is not root]


def test_another_root_confirms_when_the_root_is_killed_and_nothing_confirmed_is_lost(
    tmp_path: Path,
) -> None:
    with cluster_processes(tmp_path) as cluster:
        first = cluster.root()
        cluster.await_in_sync("abc")
        bodies = [b"%d" % number for number in range(200)]
        cluster.publish("q", bodies[:100])
        first.kill()
        cluster.publish("q", bodies[100:])
        second = cluster.root()
        assert second is not first
        # Whatever was in doubt at the kill may be there twice.
        assert set(cluster.taken("q")) == set(bodies)
        first.start()
        cluster.await_in_sync("abc")
        eventually("it follows the root", lambda: follows(cluster, first))
        for member in cluster.members.values():
            assert member.stop() == 0


def test_all_servers_may_be_killed_at_once(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.publish("q", [b"kept"])
        for member in cluster.members.values():
            member.kill()
        for member in cluster.members.values():
            member.begin()
        for member in cluster.members.values():
            member.ready()
        assert set(cluster.taken("q")) == {b"kept"}


def test_a_root_that_is_told_to_stop_hands_over(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")
        first = cluster.root()
        assert first.stop() == 0
        assert cluster.root() is not first
        assert "cluster role changed" in first.log.read_text()


def follows(cluster: ClusterProcesses, member: MemberProcess) -> bool:
    """Whether it knows the root and is in sync with it, or is the root itself."""
    status = member.status()
    return status.get("root") == cluster.root().name and status.get("role") in ("ready", "active")


def test_the_status_has_the_fields_that_tools_read(shared: ClusterProcesses) -> None:
    cluster = shared

    def check(root: MemberProcess) -> None:
        eventually("all are connected and in sync", lambda: is_quiet(root))
        status = root.status()
        epoch = status["epoch"]
        assert isinstance(epoch, int)
        assert epoch >= 1
        assert (status["name"], status["role"]) == (root.name, "active")
        assert (status["root"], status["expected_root"]) == (root.name, root.name)
        assert isinstance(status["committed"], int)
        lease = status["lease_ms"]
        assert isinstance(lease, int)
        assert 0 < lease <= 1500
        for member in rows(status):
            assert member["address"] == cluster.address(str(member["name"]))
        # The name of a root is known before it is known to be active.
        for other in others(cluster):
            eventually("it is ready", lambda: other.code_of("/health/ready") == 200)  # noqa: B023
            assert other.code_of("/health/root") == 503
            assert other.status()["root"] == root.name

    cluster.while_root_stays(check)


def test_replication_is_told_as_the_document_says(shared: ClusterProcesses) -> None:
    """/api/ha and /api/ha/queues on the root and on a backup, and the metrics of both."""
    cluster = shared
    cluster.publish("told", [b"one"])

    def check(root: MemberProcess) -> None:
        eventually("all are connected and in sync", lambda: is_quiet(root))
        document = json.loads(asked(root, "GET", "/api/openapi.json")[1])
        for member in cluster.members.values():
            code, text = asked(member, "GET", "/api/ha")
            assert code == 200
            answer = document["paths"]["/api/ha"]["get"]["responses"]["200"]
            schema = answer["content"]["application/json"]["schema"]
            assert set(schema["properties"]) == set(json.loads(text))
            assert member.code_of("/api/ha") == 401
        status = json.loads(asked(root, "GET", "/api/ha")[1])
        assert (status["role"], status["state"], status["waiting"]) == ("primary", "active", "")
        assert {one["state"] for one in status["backups"]} == {"ready"}
        assert all(change["reason"] for change in status["history"])
        queues = json.loads(asked(root, "GET", "/api/ha/queues?name=told")[1])
        assert {row["server"]: row["missing"] for row in queues} == dict.fromkeys("abc", 0)
        metrics = asked(root, "GET", "/metrics")[1]
        assert "penstock_cluster_confirms_waiting 0.0" in metrics
        assert "penstock_cluster_in_sync_changes_total" in metrics

    cluster.while_root_stays(check)


def rows(status: dict[str, object]) -> list[dict[str, object]]:
    members = status["members"]
    assert isinstance(members, list)
    return members


def is_quiet(root: MemberProcess) -> bool:
    """Whether all servers are connected and have everything; true at once of a server that is not
    the root any more, for which nobody need wait.
    """
    status = root.status()
    if status.get("role") != "active":
        return True
    have_all = [
        member["in_sync"] and (member["lag_operations"], member["lag_bytes"]) == (0, 0)
        for member in rows(status)
    ]
    roles = {str(member["name"]): member["role"] for member in rows(status)}
    expected = {name: "active" if name == root.name else "ready" for name in "abc"}
    return all(have_all) and roles == expected and status["votes"] in ([2, 3, 3], [3, 3, 3])


def test_a_server_alone_knows_no_root(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path)
    try:
        assert cluster.format("a").returncode == 0
        cluster["a"].start()
        assert cluster["a"].code_of("/health/live") == 200
        assert cluster["a"].code_of("/health/ready") == 503
        assert cluster["a"].code_of("/health/root") == 503
        assert cluster["a"].status()["root"] == ""
        code, text = asked(cluster["a"], "GET", "/api/overview")
        assert (code, "no active root" in text) == (503, True), text
    finally:
        cluster.end()


def test_only_the_root_changes_anything_and_the_others_have_it_too(
    shared: ClusterProcesses,
) -> None:
    cluster = shared

    def check(root: MemberProcess) -> None:
        for other in others(cluster):
            eventually("it is ready", lambda: other.code_of("/health/ready") == 200)  # noqa: B023
            code, text = asked(other, "PUT", "/api/vhosts/orders")
            assert (code, cluster.address(root.name) in text) == (503, True), text
            code, text = asked(other, "PUT", "/api/queues/%2F/q", {"durable": True})
            assert code == 503, text
            code, text = asked(other, "GET", "/api/leases/%2F")
            assert code == 503, text
        # 204 if an attempt before this one made it.
        assert asked(root, "PUT", "/api/vhosts/orders")[0] in (201, 204)
        assert asked(root, "PUT", "/api/queues/%2F/q", {"durable": True})[0] in (201, 204)
        for other in others(cluster):
            eventually("has it", lambda: asked(other, "GET", "/api/vhosts/orders")[0] == 200)  # noqa: B023
            eventually("has it", lambda: asked(other, "GET", "/api/queues/%2F/q")[0] == 200)  # noqa: B023
        eventually("all are connected and in sync", lambda: is_quiet(root))
        code, text = asked(root, "GET", "/metrics")
        assert code == 200
        assert 'penstock_cluster_role{role="active"} 1.0' in text
        assert "penstock_cluster_in_sync_members 3.0" in text
        assert f'penstock_cluster_lag_bytes{{server="{others(cluster)[0].name}"}} 0.0' in text

    cluster.while_root_stays(check)


def publish_to(queue: str) -> tuple[str, str, dict[str, object]]:
    body: dict[str, object] = {"properties": {}, "routing_key": queue, "payload": "x"}
    body["payload_encoding"] = "string"
    return "POST", "/api/exchanges/%2F/amq.default/publish", body


# Every way over HTTP to change what a queue or a stream holds.
CHANGES_OF_MESSAGES: list[tuple[str, str, object]] = [
    publish_to("held"),
    publish_to("passing"),
    publish_to("flow"),
    (
        "POST",
        "/api/queues/%2F/held/get",
        {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
    ),
    ("POST", "/api/queues/%2F/held/move", {"destination": "passing"}),
    ("DELETE", "/api/queues/%2F/held/contents", None),
    ("GET", "/api/aliveness-test/%2F", None),
    ("POST", "/api/leases/%2F/held", {"owner": "o", "count": 1}),
    ("PUT", "/api/streams/%2F/flow/cursors/c", {"offset": 0}),
    ("DELETE", "/api/streams/%2F/flow/cursors/c", None),
    ("DELETE", "/api/sinks/%2F/s", None),
]


def test_a_backup_changes_no_message_whoever_asks_over_http(shared: ClusterProcesses) -> None:
    cluster = shared

    def check(root: MemberProcess) -> None:
        declared = {"held": {}, "flow": {"arguments": {"x-queue-type": "stream"}}}
        for name, more in declared.items():
            asked(root, "PUT", f"/api/queues/%2F/{name}", {"durable": True, **more})
        asked(root, "PUT", "/api/queues/%2F/passing", {"durable": False})
        assert asked(root, *publish_to("held"))[0] == 200
        for other in others(cluster):
            eventually("has it", lambda: asked(other, "GET", "/api/queues/%2F/passing")[0] == 200)  # noqa: B023
            for method, path, body in CHANGES_OF_MESSAGES:
                code, text = asked(other, method, path, body)
                assert (code, "root" in text) == (503, True), (method, path, text)
        assert asked(root, *publish_to("flow"))[0] == 200
        cluster.await_in_sync("abc")
        assert asked(root, "DELETE", "/api/queues/%2F/held/contents")[0] == 204
        assert asked(root, "DELETE", "/api/queues/%2F/flow")[0] == 204

    cluster.while_root_stays(check)


def test_the_first_root_imports_the_definitions_file_once(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queue = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    file.write_text(json.dumps({"queues": [{**queue, "name": "imported"}]}))

    def change(root: MemberProcess) -> None:
        if asked(root, "GET", "/api/queues/%2F/own")[0] != 200:
            assert asked(root, "GET", "/api/queues/%2F/imported")[0] == 200
            assert asked(root, "PUT", "/api/queues/%2F/own", {"durable": True})[0] == 201
        assert asked(root, "DELETE", "/api/queues/%2F/imported")[0] in (204, 404)

    def check(root: MemberProcess) -> None:
        assert asked(root, "GET", "/api/queues/%2F/own")[0] == 200
        assert asked(root, "GET", "/api/queues/%2F/imported")[0] == 404

    with cluster_processes(tmp_path, options=("--definitions", str(file))) as cluster:
        cluster.await_in_sync("abc")
        cluster.while_root_stays(change)
        cluster.await_in_sync("abc")
        cluster.root().kill()
        cluster.while_root_stays(check)


def test_a_wrong_definitions_file_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text("{")
    cluster = ClusterProcesses(tmp_path, "a", ("--definitions", str(file)))
    assert cluster.format("a").returncode == 0
    cluster["a"].begin()
    process = cluster["a"].process
    assert process is not None
    process.communicate(timeout=60)
    assert process.returncode == 2


def test_our_client_goes_to_the_root_that_a_server_names(shared: ClusterProcesses) -> None:
    cluster = shared

    def check(root: MemberProcess) -> None:
        backup = others(cluster)[0]
        with blocking.connect(f"amqp://127.0.0.1:{backup.port}") as connection:
            assert connection.address.port == root.port
            with connection.channel() as channel:
                channel.call(declare_queue("of-our-client"))
        # Nobody listens on the first of them.
        addresses = ",".join([f"127.0.0.1:{free_ports(1)[0]}", *map(cluster.address, "cba")])
        with blocking.connect(f"amqp://guest:guest@{addresses}/") as connection:
            assert connection.address.port == root.port

    cluster.while_root_stays(check)


def test_a_cluster_talks_over_tls(tmp_path: Path) -> None:
    signer = authority(tmp_path, "authority")
    shown = signed_by(signer, tmp_path, "server")
    config = tmp_path / "penstock.toml"
    config.write_text(
        f'[cluster]\ntls_certificate = "{shown.file}"\ntls_key = "{shown.key}"\n'
        f'tls_ca = "{signer.file}"\n'
    )
    options = ("--config", str(config))

    def check(root: MemberProcess) -> None:
        port = others(cluster)[0].port
        uri = f"amqps://127.0.0.1:{port}?cacertfile={signer.file}"
        with blocking.connect(uri) as connection, connection.channel() as channel:
            channel.call(declare_queue("q", durable=True))
            assert connection.address.port == root.port

    with cluster_processes(tmp_path, options=options, scheme="amqps://") as cluster:
        cluster.await_in_sync("abc")
        cluster.while_root_stays(check)
