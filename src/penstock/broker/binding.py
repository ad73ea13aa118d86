"""The bindings of one virtual host, found by either end.

Invariants: two bindings never agree in source, destination, key and arguments; whatever is in
`of_source` of one end is in `of_destination` of the other, and in its source exchange.
"""

from penstock.broker.exchanges.exchange import Binding, Exchange

# What makes a binding the same as another: kind and name of the destination, key, arguments.
_Identity = tuple[str, str, str, str]


class Bindings:
    """Held by the virtual host, which alone changes it."""

    def __init__(self) -> None:
        self._of_source: dict[Exchange, dict[_Identity, Binding]] = {}
        self._of_destination: dict[object, dict[Binding, None]] = {}

    def find(self, wanted: Binding) -> Binding | None:
        """The binding that is there already and means the same."""
        leaving = self._of_source.get(wanted.source)
        return None if leaving is None else leaving.get(_identity(wanted))

    def add(self, binding: Binding) -> bool:
        """False when there was one that means the same; nothing is changed then."""
        leaving = self._of_source.setdefault(binding.source, {})
        identity = _identity(binding)
        if identity in leaving:
            return False
        leaving[identity] = binding
        self._of_destination.setdefault(_destination(binding), {})[binding] = None
        binding.source.add(binding)
        return True

    def remove(self, binding: Binding) -> None:
        """`binding` must be one that `find` or a listing returned."""
        leaving = self._of_source[binding.source]
        known = leaving.pop(_identity(binding))
        assert known is binding, "removed by the object that was added"
        if not leaving:
            del self._of_source[binding.source]
        destination = _destination(binding)
        arriving = self._of_destination[destination]
        del arriving[binding]
        if not arriving:
            del self._of_destination[destination]
        binding.source.remove(binding)

    def from_source(self, source: Exchange) -> list[Binding]:
        leaving = self._of_source.get(source)
        return [] if leaving is None else list(leaving.values())

    def to_destination(self, destination: object) -> list[Binding]:
        """`destination` is a queue or an exchange."""
        arriving = self._of_destination.get(destination)
        return [] if arriving is None else list(arriving)

    def is_used(self, source: Exchange) -> bool:
        return source in self._of_source

    def listed(self) -> list[Binding]:
        found: list[Binding] = []
        for leaving in self._of_source.values():
            found.extend(leaving.values())
        return found


def _destination(binding: Binding) -> object:
    if binding.destination_queue is not None:
        return binding.destination_queue
    return binding.destination_exchange


def _identity(binding: Binding) -> _Identity:
    kind = "queue" if binding.destination_queue is not None else "exchange"
    # The representation tells 1 from 1.0 and true, which equality in Python does not.
    arguments = repr(sorted(binding.arguments.items())) if binding.arguments else ""
    return (kind, binding.destination_name, binding.routing_key, arguments)
