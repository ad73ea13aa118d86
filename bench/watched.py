"""A broker whose HTTP port is known to the bench."""

import base64
import re
import time
import urllib.request
from typing import Final

from bench.brokers import Penstock
from bench.running import HOST

ANSWER_SECONDS: Final = 60.0
_HTTP: Final = re.compile(r" http=\S+:(\d+)")


class WatchedPenstock(Penstock):
    name = "penstock-watched"

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--http-port", "0"]

    def get(self, path: str) -> tuple[float, int]:
        """How long the answer took, and its size."""
        found = _HTTP.search(self._output())
        assert found is not None, "the ready line names the HTTP port"
        login = base64.b64encode(b"guest:guest").decode()
        request = urllib.request.Request(
            f"http://{HOST}:{found[1]}{path}", headers={"Authorization": f"Basic {login}"}
        )
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            size = len(answer.read())
        return time.perf_counter() - began, size
