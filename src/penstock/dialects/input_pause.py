"""Why a connection's input is paused: its socket is read while there is no reason not to."""

from typing import Final

from penstock.world.network import Transport

# Its password is being checked, or a refused login waits for its answer.
LOGIN: Final = 1
# It publishes while an alarm lasts.
ALARM: Final = 2
# It has used its share of this tick, and its last input is kept until its next turn.
TURN: Final = 4
# What a client hears that was to complete a message and did not.
NOT_COMPLETED: Final = "the message was not completed in time while an alarm blocks publishers"


class InputPause:
    """Held by one connection. Reasons come and go independently of each other."""

    def __init__(self, transport: Transport) -> None:
        self._transport: Transport = transport
        self._reasons: int = 0

    def pause(self, reason: int) -> None:
        if self._reasons == 0:
            self._transport.pause_reading()
        self._reasons |= reason

    def resume(self, reason: int) -> None:
        """Does nothing for a reason that is not set. Several may be combined with `|`."""
        if self._reasons & reason:
            self._reasons &= ~reason
            if self._reasons == 0:
                self._transport.resume_reading()

    def is_paused(self) -> bool:
        return self._reasons != 0

    def is_paused_for(self, reason: int) -> bool:
        return self._reasons & reason != 0
