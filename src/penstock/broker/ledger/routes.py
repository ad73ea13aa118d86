"""Where messages were published to: counts by exchange and routing key, in bounded memory.

Applications may put anything into a routing key, so only a limited number is counted separately.
Beyond that a key is counted with all others that have its first word, as `word.#`; beyond the limit
of those, as `#` with its exchange; and then with everything else of its virtual host. When that has
happened the table is cleared after a while, so that a key that has become busy gets a line of its
own.
"""

from typing import Final

from penstock.broker.shared_services import RouteCount

# Keys that are counted separately, and prefixes: a megabyte of memory, and a quarter of it in a
# file.
ROUTES_MAX: Final = 4096
# As long as `penstock pipeline flow --follow` looks back.
RENEWED_MS: Final = 60_000
ALL: Final = "#"


class Routes:
    """Held by the ledger."""

    def __init__(self, wall: int, routes_max: int = ROUTES_MAX) -> None:
        self._routes_max: int = routes_max
        self._renewed_at: int = wall
        self._overflowed: bool = False
        # By vhost, exchange and key; by vhost, exchange and first word; by vhost and exchange;
        # by vhost.
        self._levels: list[dict[str, RouteCount]] = [{}, {}, {}, {}]

    def find(self, vhost: str, exchange: str, key: str) -> RouteCount:
        """The line for a key, which other keys may share."""
        word = key.partition(".")[0]
        names = (
            f"{vhost}\0{exchange}\0{key}",
            f"{vhost}\0{exchange}\0{word}.{ALL}",
            f"{vhost}\0{exchange}\0{ALL}",
            f"{vhost}\0{ALL}\0{ALL}",
        )
        for level, name in enumerate(names):
            known = self._levels[level]
            count = known.get(name)
            if count is not None:
                return count
            # The number of virtual hosts is limited by the broker.
            if len(known) < self._routes_max or level == len(names) - 1:
                count = RouteCount(name.encode(errors="surrogateescape"))
                known[name] = count
                return count
            self._overflowed = True
        raise AssertionError("the last level takes all")

    def all(self) -> list[RouteCount]:
        found: list[RouteCount] = []
        for known in self._levels:
            found.extend(known.values())
        return found

    def renew(self, wall: int) -> bool:
        """Clear the table when there were too many keys and it is time; busy keys then come first.
        Whoever still holds a line must ask again.
        """
        if not self._overflowed or wall - self._renewed_at < RENEWED_MS:
            return False
        self._renewed_at = wall
        self._overflowed = False
        for known in self._levels:
            known.clear()
        return True
