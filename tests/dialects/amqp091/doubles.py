"""A transport that keeps what was written, for connections that have no socket."""

from penstock.world.network import Transport


class RecordingTransport(Transport):
    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
