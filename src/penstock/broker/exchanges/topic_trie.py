"""Patterns of topic bindings as a tree of words: `*` is one word, `#` any number of them.

A match walks all patterns at once, word by word, and keeps the set of nodes that the words so far
can lead to. Its cost is bounded by (words of the key) x (nodes that can match), never by the
number of bindings, and a pattern such as `#.a.#.a.#.a` cannot make it explode.

Invariants: a node other than the root has a binding or a child; a `#` node stays in the set once
it is reached. The empty key has no words; `a.` has two, the second one empty.
"""

from typing import Final

from penstock.broker.exchanges.exchange import Binding

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"


class TrieNode:
    """What a prefix of patterns leads to. Held by its parent."""

    def __init__(self, takes_any_words: bool) -> None:
        self.children: dict[str, TrieNode] = {}
        self.bindings: dict[Binding, None] = {}
        # The wildcards' children again, so that a match finds them without hashing.
        self.one_word: TrieNode | None = None
        self.any_words: TrieNode | None = None
        self.takes_any_words: bool = takes_any_words
        # Number of the last step that reached it: a node joins the set of a step only once.
        self.reached: int = 0


class TopicTrie:
    """The bindings of one topic exchange by their patterns."""

    def __init__(self) -> None:
        self._root: TrieNode = TrieNode(takes_any_words=False)
        self._step: int = 0

    def add(self, binding: Binding) -> None:
        node = self._root
        for word in words_of(binding.routing_key):
            child = node.children.get(word)
            if child is None:
                child = TrieNode(word == ANY_WORDS)
                node.children[word] = child
                if word == ANY_WORDS:
                    node.any_words = child
                elif word == ONE_WORD:
                    node.one_word = child
            node = child
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        words = words_of(binding.routing_key)
        path = [self._root]
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].bindings[binding]
        for index in range(len(words) - 1, -1, -1):
            node = path[index + 1]
            if node.bindings or node.children:
                break
            parent = path[index]
            del parent.children[words[index]]
            if parent.any_words is node:
                parent.any_words = None
            elif parent.one_word is node:
                parent.one_word = None

    def match(self, routing_key: str, found: list[Binding]) -> int:
        """Returns how many nodes were looked at."""
        self._step += 1
        looked_at = 0
        reached: list[TrieNode] = []
        _reach(self._root, self._step, reached)
        for word in words_of(routing_key):
            self._step += 1
            step = self._step
            following: list[TrieNode] = []
            for node in reached:
                child = node.children.get(word)
                # A word that looks like a wildcard names the wildcard's own child; it is a
                # match only as a wildcard, which the next lines see to.
                if child is not None and child is not node.any_words:
                    _reach(child, step, following)
                if node.one_word is not None:
                    _reach(node.one_word, step, following)
                if node.takes_any_words:
                    _reach(node, step, following)
            reached = following
            looked_at += len(following)
        for node in reached:
            if node.bindings:
                found.extend(node.bindings)
        return looked_at


def words_of(key: str) -> list[str]:
    if not key:
        return []
    return key.split(".")


def _reach(start: TrieNode, step: int, reached: list[TrieNode]) -> None:
    """Add a node and, because `#` also stands for no word at all, the `#` nodes behind it."""
    node: TrieNode | None = start
    while node is not None and node.reached != step:
        node.reached = step
        reached.append(node)
        node = node.any_words
