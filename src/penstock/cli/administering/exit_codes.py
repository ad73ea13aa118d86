"""How operators' commands end. docs/CLI.md has the same table, and a test compares them."""

from typing import Final

REFUSED: Final = 1
WRONG_USAGE: Final = 2  # Typer's own
CANNOT_CONNECT: Final = 3
LOGIN_REFUSED: Final = 4
DOES_NOT_EXIST: Final = 5
NOT_ALLOWED: Final = 6

MEANINGS: Final = {
    0: "done",
    REFUSED: "the broker refused the request, or could not carry it out; for `status`: the broker "
    "is not healthy; for `config check`: the configuration has errors",
    WRONG_USAGE: "wrong options or arguments, or a profile file that cannot be used",
    CANNOT_CONNECT: "no answer from the broker: wrong address, not running, or TLS failed",
    LOGIN_REFUSED: "the broker refused the user or the password",
    DOES_NOT_EXIST: "what was named does not exist",
    NOT_ALLOWED: "the user is logged in and lacks a tag or a permission",
}
