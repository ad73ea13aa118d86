"""The fields of a request's body, asked for by name and type."""

from penstock.dialects.amqp10.management.arguments import neutral_arguments, type_name
from penstock.dialects.amqp10.management.refusals import bad_request


class BodyFields:
    """The map that a PUT or POST comes with. Made per request."""

    def __init__(self, what: str, known: tuple[str, ...], body: object) -> None:
        """`what` reads "queue property". Null counts as absent."""
        if not isinstance(body, dict):
            raise bad_request(f"the body must be a map, not {type_name(body)}")
        self._what: str = what
        self._fields: dict[str, object] = {}
        for key, value in body.items():
            if not isinstance(key, str) or key not in known:
                raise bad_request(f"bad {what} '{key}': supported are {', '.join(known)}")
            if value is not None:
                self._fields[key] = value

    def has(self, name: str) -> bool:
        return name in self._fields

    def flag(self, name: str, default: bool) -> bool:
        value = self._fields.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(name, "boolean", value)
        return value

    def text(self, name: str, default: str) -> str:
        value = self._fields.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._wrong(name, "string", value)
        return value

    def arguments(self) -> dict[str, object]:
        return neutral_arguments(self._fields.get("arguments"))

    def _wrong(self, name: str, expected: str, value: object) -> Exception:
        return bad_request(
            f"bad {self._what} '{name}': {expected} expected, got {type_name(value)}"
        )
