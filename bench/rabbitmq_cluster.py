"""A cluster of three RabbitMQ nodes on loopback, with names, a cookie and a port mapper of their own."""

import os
import subprocess
import time
from pathlib import Path
from typing import Final

from bench.brokers import READY_SECONDS_MAX, rabbitmq_version
from bench.clusters import ClusterServer, RunningCluster, accepts_clients
from bench.running import HOST, BrokerUnavailableError, end_tree, free_port

PROGRAMS: Final = Path("/usr/lib/rabbitmq/bin")
SERVER: Final = "rabbitmq-server"
CONTROL: Final = "rabbitmqctl"

LOOPBACK_ONLY: Final = "-kernel inet_dist_use_interface {127,0,0,1}"

# Without these, idle schedulers spin for a while before they sleep, and what they burn would be
# counted as the cost of messages.
NO_BUSY_WAIT: Final = "+sbwt none +sbwtdcpu none +sbwtdio none"

# One command of rabbitmqctl starts a virtual machine; on a busy machine that takes seconds.
CONTROL_SECONDS_MAX: Final = 120.0

# Three nodes boot at once, so each takes longer than one alone.
BOOT_SECONDS_MAX: Final = READY_SECONDS_MAX * 3


class RabbitMQCluster(RunningCluster):
    """Debian's package, three times. The leader of a quorum queue or of a stream is at the first node,
    because clients declare it there, and clients stay there: no message takes a further step.
    """

    name = "rabbitmq-cluster"

    def __init__(self, programs: Path = PROGRAMS) -> None:
        if not (programs / SERVER).exists():
            raise BrokerUnavailableError(
                "RabbitMQ is not installed (Debian: apt-get install rabbitmq-server)"
            )
        self._programs = programs
        self._port_mapper: subprocess.Popen[str] | None = None
        self._port_mapper_port = free_port()
        super().__init__()

    def _start(self) -> None:
        self.version = rabbitmq_version()
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text(os.urandom(16).hex())
        cookie.chmod(0o400)
        # In the foreground; otherwise Erlang starts one that outlives this process.
        self._port_mapper = subprocess.Popen(
            ["epmd"], env=self._environment(self.servers[0]), text=True
        )
        for server in self.servers:
            (server.folder / "plugins").write_text("[].\n")
            (server.folder / "rabbitmq.conf").write_text("log.file.level = warning\n")
            server.launch([str(self._programs / SERVER)], self._environment(server))
        for server in self.servers:
            self._wait_for_login(server)
        first, *others = self.servers
        for server in others:
            self._control(server, "stop_app")
            self._control(server, "join_cluster", self._node(first))
            self._control(server, "start_app")
        for server in self.servers:
            self._wait_for_login(server)

    def _node(self, server: ClusterServer) -> str:
        return f"penstock-bench-{server.port}@localhost"

    def _environment(self, server: ClusterServer) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            # All three find the same cookie there.
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": self._node(server),
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(server.port),
            "RABBITMQ_DIST_PORT": str(server.http_port),
            "RABBITMQ_MNESIA_BASE": str(server.folder / "data"),
            "RABBITMQ_LOG_BASE": str(server.folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(server.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(server.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{LOOPBACK_ONLY} {NO_BUSY_WAIT}",
            "RABBITMQ_CTL_ERL_ARGS": LOOPBACK_ONLY,
            "ERL_EPMD_PORT": str(self._port_mapper_port),
            "ERL_EPMD_ADDRESS": HOST,
        }

    def _control(self, server: ClusterServer, *words: str) -> None:
        done = subprocess.run(
            [str(self._programs / CONTROL), "-n", self._node(server), *words],
            env=self._environment(server),
            cwd=server.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=CONTROL_SECONDS_MAX,
        )
        if done.returncode:
            said = (done.stdout + done.stderr)[-2000:]
            raise BrokerUnavailableError(f"rabbitmqctl {' '.join(words)} failed: {said}")

    def _wait_for_login(self, server: ClusterServer) -> None:
        deadline = time.monotonic() + BOOT_SECONDS_MAX
        while not accepts_clients(server.port):
            if server.has_ended or time.monotonic() > deadline:
                complaint = server.output()[-2000:]
                raise BrokerUnavailableError(f"RabbitMQ {server.name} did not start: {complaint}")
            time.sleep(0.1)

    def root(self) -> ClusterServer:
        return self.servers[0]

    def epoch(self) -> int:
        """The leader of a queue may move, but nothing here makes it move."""
        return 0

    def stop(self) -> None:
        super().stop()
        if self._port_mapper is not None:
            end_tree(self._port_mapper)
