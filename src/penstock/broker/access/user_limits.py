"""How many connections and channels each user may have at once, as the operator said.

A session of AMQP 1.0 counts as a channel. Limits of a user who is deleted go with the user.
"""

from penstock.broker.topology import SetUserLimits


class UserLimits:
    """The limits of all users who have any. Held by the broker's state."""

    def __init__(self) -> None:
        self._by_user: dict[str, SetUserLimits] = {}

    def put(self, command: SetUserLimits) -> None:
        if command.max_connections < 0 and command.max_channels < 0:
            self._by_user.pop(command.user, None)
        else:
            self._by_user[command.user] = command

    def forget(self, user: str) -> None:
        self._by_user.pop(user, None)

    def of(self, user: str) -> SetUserLimits:
        """-1 where there is no limit."""
        return self._by_user.get(user) or SetUserLimits(user)

    def listed(self) -> list[SetUserLimits]:
        return list(self._by_user.values())
