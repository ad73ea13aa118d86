"""What the owner of an election is told at the end of a call, in the order in which it happened."""

from typing import Final

from penstock.cluster.surroundings import ElectionListener

WON: Final = 0
ACTIVATED: Final = 1
STEPPED_DOWN: Final = 2
IN_SYNC_CHANGED: Final = 3
ROLE_CHANGED: Final = 4
FAILED: Final = 5


class OwnerEvent:
    """Held by the events."""

    def __init__(self, kind: int, text: str, role: str, epoch: int) -> None:
        self.kind: int = kind
        self.text: str = text
        self.role: str = role
        self.epoch: int = epoch


class OwnerEvents:
    """Held by the election."""

    def __init__(self, listener: ElectionListener) -> None:
        self._listener: ElectionListener = listener
        self._events: list[OwnerEvent] = []
        self._told_root: str = ""
        self._told_epoch: int = 0

    def add(self, kind: int, text: str, role: str, epoch: int) -> None:
        self._events.append(OwnerEvent(kind, text, role, epoch))

    def tell(self, now: int) -> bool:
        """Tell one thing, during which more may be added; whether there was any."""
        if not self._events:
            return False
        event = self._events.pop(0)
        listener = self._listener
        if event.kind == WON:
            listener.won(event.epoch, now)
        elif event.kind == ACTIVATED:
            listener.became_active(now)
        elif event.kind == STEPPED_DOWN:
            listener.stepped_down(event.text, now)
        elif event.kind == IN_SYNC_CHANGED:
            listener.in_sync_changed(now)
        elif event.kind == ROLE_CHANGED:
            listener.role_changed(event.role, event.text, now)
        else:
            listener.promises_failed(event.text, now)
        return True

    def leave(self, root_name: str, epoch: int, now: int) -> bool:
        """Tell that the root which was joined is not the root any more, before anything else is
        told; whether that was so.
        """
        if not self._told_root or (root_name == self._told_root and epoch == self._told_epoch):
            return False
        self._told_root = ""
        self._listener.follows("", epoch, now)
        return True

    def follow(self, root_name: str, epoch: int, now: int) -> bool:
        """Tell whom to join, if that is news; whether it was."""
        is_news = root_name != self._told_root
        self._told_root = root_name
        self._told_epoch = epoch
        if is_news:
            self._listener.follows(root_name, epoch, now)
        return is_news
