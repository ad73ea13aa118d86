"""Topic exchange: binding keys are patterns of words."""

from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.exchanges.topic_trie import TopicTrie
from penstock.broker.message import Properties


class TopicExchange(Exchange):
    def __init__(
        self,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> None:
        super().__init__(name, kind, durable, auto_delete, internal, arguments)
        self._trie: TopicTrie = TopicTrie()

    def match(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        self.compared = self._trie.match(routing_key, found)

    def add(self, binding: Binding) -> None:
        self._trie.add(binding)

    def remove(self, binding: Binding) -> None:
        self._trie.remove(binding)
