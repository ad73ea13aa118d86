"""`penstock purge`: drop the messages of a queue."""

from penstock.cli.administering.arguments import Confirmed, confirm
from penstock.cli.administering.completing import QueueName
from penstock.cli.administering.session import OperatorSession, operator


@operator(has_vhost=True)
def command(session: OperatorSession, queue: QueueName, yes: Confirmed = False) -> None:
    """Drop all messages of a queue that are ready; those that consumers hold stay.

    Examples:
      penstock purge jobs
      penstock purge jobs --yes

    """
    confirm(f"Drop all messages that are ready in {queue!r}?", yes)
    session.api.delete("queues", session.vhost, queue, "contents")
    session.done(f"queue {queue!r} purged", queue=queue, vhost=session.vhost)
