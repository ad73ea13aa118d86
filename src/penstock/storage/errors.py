"""What makes a journal refuse to start. Each names the file and says what to do."""


class StorageError(Exception):
    """The parent of all below; the text is meant for the operator."""


class Damaged(StorageError):
    """Octets that had been safe are not what was written. Nothing was changed."""

    def __init__(self, file: str, offset: int, what: str) -> None:
        super().__init__(
            f"{file} is damaged at offset {offset}: {what}. Nothing was changed. "
            "`penstock store check` lists the damage, `penstock store salvage` copies what is whole"
        )
        self.file = file
        self.offset = offset
        self.what = what


class WrongVersion(StorageError):
    """Written in a format that this version does not read."""

    def __init__(self, file: str, found: int, known: int) -> None:
        super().__init__(
            f"{file} is of format version {found}, this penstock reads version {known}. "
            "Nothing was changed; start the penstock that wrote it"
        )
        self.file = file
        self.found = found


class NotAStore(StorageError):
    """A file that no journal of this store wrote."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file} {what}. Nothing was changed; move it away or name another folder")
        self.file = file
