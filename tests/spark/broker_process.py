"""A broker as a process with a data directory, as a Spark query meets it: over HTTP, killable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.client import blocking
from penstock.client.blocking import BlockingConnection


class BrokerProcess:
    """Held by a fixture, which closes it. Keeps its ports when it is started again."""

    def __init__(self, data: Path, *options: str) -> None:
        self._data = data
        self._options = options
        self._ports = (0, 0)
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._ports[1]}/"

    @property
    def amqp_uri(self) -> str:
        return f"amqp://127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        amqp, http = self._ports
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "penstock",
                "serve",
                "--host=127.0.0.1",
                f"--port={amqp}",
                f"--http-port={http}",
                f"--data={self._data}",
                *self._options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        assert line.startswith("penstock ready"), line
        self._ports = (_port(words["amqp"]), _port(words["http"]))
        # 0 without TLS.
        self.tls_port = _port(words.get("amqps", "0"))

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        self.kill()

    def connection(self) -> BlockingConnection:
        return blocking.connect(self.amqp_uri)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
