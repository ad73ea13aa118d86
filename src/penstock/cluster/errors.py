"""What a peer or a damaged file makes this room refuse."""

from penstock.storage.errors import StorageError


class PromisesDamaged(StorageError):
    """Promises that were durable cannot be read. A server that has forgotten a promise must not
    vote, so it does not start.
    """

    def __init__(self, file: str, offset: int, what: str) -> None:
        super().__init__(
            f"{file} is damaged at offset {offset}: {what}. Nothing was changed. This server may "
            "have forgotten a vote, so it cannot go on with this data directory: format an empty "
            "one with `penstock cluster format`, start it, and run `penstock cluster replace`"
        )
        self.file = file
        self.offset = offset
