"""What makes a journal refuse to start. Each names the file and says what to do."""


class StorageError(Exception):
    """The parent of all below; the text is meant for the operator."""


class Damaged(StorageError):
    """Bytes that were durable are missing or corrupt. Nothing was changed."""

    def __init__(self, file: str, offset: int, what: str) -> None:
        super().__init__(
            f"{file} is damaged at offset {offset}: {what}. Nothing was changed. "
            "`penstock store check` lists the damage, `penstock store salvage` copies what is "
            "intact"
        )
        self.file = file
        self.offset = offset
        self.what = what


class WrongVersion(StorageError):
    """Written in a format that this version does not read."""

    def __init__(self, file: str, found: int, known: int) -> None:
        super().__init__(
            f"{file} has format version {found}, but this version of Penstock reads only format "
            f"version {known}. Nothing was changed. Use the version of Penstock that wrote it, or "
            "begin with an empty directory: that version's `penstock definitions export` and this "
            "one's `penstock definitions import` take the definitions along, and a client of both "
            "the messages"
        )
        self.file = file
        self.found = found


class NotAStore(StorageError):
    """A file that was not written by a journal of this store."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file} {what}. Nothing was changed; remove it or name another directory")
        self.file = file
