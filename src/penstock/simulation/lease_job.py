"""A job that takes leases, reads them, and settles them or gives them back."""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.broker.errors import NotFound
from penstock.broker.leases.leases import (
    LeaseRequest,
    facts_of,
    find_lease,
    give_back,
    leases_of,
    number_of,
    settle_leases,
    take_lease,
)
from penstock.broker.vhost import VirtualHost
from penstock.simulation.checkers import entries_of
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.job import Job
from penstock.simulation.lease_book import KnownLease, LeaseBook, names_of
from penstock.simulation.ledger import Ledger
from penstock.simulation.scenarios import LEASED
from penstock.simulation.workplace import Workplace

MESSAGES_MAX: Final = 7
EXPIRES_CHANCE: Final = 0.2
EXPIRES_MS_MAX: Final = 2_000
LOOK_CHANCE: Final = 0.2


class LeaseJob(Job):
    """Held by the run. It owns leases under its own name."""

    def __init__(
        self, name: str, clock: VirtualClock, dice: Dice, ledger: Ledger, place: Workplace,
        book: LeaseBook,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, dice, ledger, place)
        self._book = book
        # The last number that was asked for.
        self._number = 0
        self._actions: list[tuple[Callable[[VirtualHost, int], None], int]] = [
            (self._take_next, 10),
            (self._take_again, 4),
            (self._read, 4),
            (self._settle, 6),
            (self._give_back, 2),
        ]

    def turn(self, vhost: VirtualHost, now: int) -> None:
        if self.dice.chance(LOOK_CHANCE):
            for complaint in self._book.broken(self.node):
                self.ledger.violated(complaint)
        if not self.is_calm:
            self.dice.weighted(self._actions)(vhost, now)
        elif vhost.queue(LEASED).message_count:
            self._take_next(vhost, now)
        else:
            self._settle(vhost, now)

    def answer_lost(self) -> None:
        """The next request finds the lease."""
        self.history.sighted("a job does not know what became of a lease")

    def _numbers(self, vhost: VirtualHost) -> list[int]:
        return [number_of(lease) for lease in leases_of(vhost, LEASED, self.name)]

    def _take_next(self, vhost: VirtualHost, now: int) -> None:
        self._number += 1
        self._take(vhost, self._number, now)

    def _take_again(self, vhost: VirtualHost, now: int) -> None:
        numbers = self._numbers(vhost)
        if numbers:
            self._take(vhost, self.dice.choose(numbers), now)

    def _take(self, vhost: VirtualHost, number: int, now: int) -> None:
        expires = not self.is_calm and self.dice.chance(EXPIRES_CHANCE)
        request = LeaseRequest(
            LEASED,
            self.name,
            number,
            messages=self.dice.between(1, MESSAGES_MAX),
            expires_ms=self.dice.between(1, EXPIRES_MS_MAX) if expires else 0,
        )
        facts = take_lease(vhost, request, now)
        known = self._book.taken(find_lease(vhost, LEASED, self.name, number), facts)
        self.history.add(f"{self.name} takes {number}: {known.names}")
        self.when_safe(partial(self._took, known))

    def _took(self, known: KnownLease) -> None:
        known.is_safe = True

    def _read(self, vhost: VirtualHost, now: int) -> None:
        del now
        for (owner, number), known in list(self._book.leases.items()):
            if owner != self.name or not known.is_safe:
                continue
            try:
                lease = find_lease(vhost, LEASED, owner, number)
            except NotFound:
                known.is_safe = False
                if self._book.may_be_over(known):
                    self.history.sighted("a lease has expired")
                else:
                    self.ledger.violated(f"lease {number} of {owner} is gone")
                continue
            self._book.taken(lease, facts_of(lease, False))

    def _settle(self, vhost: VirtualHost, now: int) -> None:
        numbers = self._numbers(vhost)
        if not numbers:
            return
        last = max(numbers) if self.is_calm else self.dice.choose(numbers)
        names: list[bytes] = []
        ended: list[int] = []
        for lease in leases_of(vhost, LEASED, self.name):
            if number_of(lease) <= last:
                names += names_of(lease)
                ended.append(number_of(lease))
                self._book.ends(self.name, number_of(lease))
        self._book.settling.update(names)
        count = settle_leases(vhost, LEASED, self.name, last, now)
        if count != len(names):
            self.ledger.violated(f"{self.name} settled {count} messages, and held {len(names)}")
        self.history.add(f"{self.name} settles up to {last}: {names}")
        self.history.sighted("a lease is settled")
        self.when_safe(partial(self._settled, names, ended))

    def _settled(self, names: list[bytes], ended: list[int]) -> None:
        self._book.settled.update(names)
        self._ended(ended)

    def _ended(self, numbers: list[int]) -> None:
        self._book.ended.update([(self.name, number) for number in numbers])

    def _give_back(self, vhost: VirtualHost, now: int) -> None:
        numbers = self._numbers(vhost)
        if not numbers:
            return
        number = self.dice.choose(numbers)
        names = names_of(find_lease(vhost, LEASED, self.name, number))
        self._book.ends(self.name, number)
        origin = vhost.queue(LEASED)
        was_empty = origin.message_count == 0
        give_back(vhost, LEASED, self.name, number, now)
        returned = entries_of(origin)[-len(names) :] if names else []
        # A message that is requeued behind paged-out messages loses its flag with them.
        if was_empty and not all(entry.is_redelivered for entry in returned):
            self.ledger.violated(f"lease {number} of {self.name} came back without the flag")
        self.history.add(f"{self.name} gives back {number}: {names}")
        self.history.sighted("a lease is given back")
        self.when_safe(partial(self._ended, [number]))
