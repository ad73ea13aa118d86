"""Names of the folders in which streams are stored."""

import hashlib
from typing import Final

ROOT: Final = "streams"
# Longer names become a digest: a file name holds 255 octets, and hexadecimal doubles a name.
HEX_OCTETS_MAX: Final = 100
_DIGEST_OCTETS: Final = 32


def folder_of(vhost: str, queue: str, number: int) -> str:
    """`number` distinguishes a stream from an earlier, deleted one of the same name, whose files a
    power loss may restore.
    """
    return f"{ROOT}/{_written(vhost)}/{_written(queue)}-{number}"


def _written(name: str) -> str:
    octets = name.encode(errors="surrogateescape")
    if len(octets) <= HEX_OCTETS_MAX:
        return octets.hex()
    # A letter that no hexadecimal has keeps digests apart from names.
    return "x" + hashlib.blake2b(octets, digest_size=_DIGEST_OCTETS).hexdigest()


def described_folder(folder: str) -> str:
    """A description of the stream in a folder, for people."""
    vhost, _, queue = folder.removeprefix(ROOT + "/").partition("/")
    return f"stream '{_read(queue.partition('-')[0])}' in vhost '{_read(vhost)}'"


def _read(written: str) -> str:
    """The decoded name; the text itself when it is a digest or not one of our names."""
    try:
        return bytes.fromhex(written).decode(errors="replace")
    except ValueError:
        return written


def folders_of(names: list[str]) -> dict[str, list[str]]:
    """The files of each stream, by its folder."""
    found: dict[str, list[str]] = {}
    for name in names:
        if name.startswith(ROOT + "/"):
            found.setdefault(name.rpartition("/")[0], []).append(name)
    return found


def names_in(folder: str, names: list[str]) -> list[str]:
    start = folder + "/"
    return [name for name in names if name.startswith(start)]
