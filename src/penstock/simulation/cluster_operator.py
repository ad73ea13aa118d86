"""An operator who declares and deletes in a cluster: what was answered must be there at every root."""

from penstock.client.conversation import Conversation
from penstock.simulation.operator import Operator


class ClusterOperator(Operator):
    """Held by the run. Policies are set over HTTP, which other programs test."""

    def _set_policy(self, conversation: Conversation) -> None:
        self._declare_queue(conversation)
