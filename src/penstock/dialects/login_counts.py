"""How many logins there were at one door."""


class LoginCounts:
    """Since the start of the broker. Held by a dialect for its connections, and by the HTTP server for
    its requests. A login that could not be checked is in neither count.
    """

    def __init__(self) -> None:
        self.failed: int = 0
        self.succeeded: int = 0
