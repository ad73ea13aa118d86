"""What both fuzzers do to a recorded conversation, whatever its protocol.

Everything is drawn from one seeded `Random`, so that the same two numbers give the same input.
"""

import sys
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

RoleT = TypeVar("RoleT")


class Recorded(Generic[RoleT]):
    """One side of a conversation, and how much of it is the handshake."""

    def __init__(self, listener_role: RoleT, said: bytes, handshake_size: int) -> None:
        self.listener_role = listener_role
        self.said = said
        self.handshake_size = handshake_size


def mutate(random: Random, recorded: Recorded[RoleT], other: bytes) -> bytes:
    """Octets changed, added, removed, doubled, taken from the other side, or cut off."""
    data = bytearray(recorded.said)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        # Mostly behind the handshake: damage in it ends the story early.
        start = recorded.handshake_size if random.random() < 0.7 else 0
        at = random.randrange(min(start, len(data)), len(data) + 1)
        size = random.choice((1, 1, 2, 4, 8, 30, 200))
        choice = random.randrange(8)
        if choice <= 1 and at < len(data):
            data[at] = random.randrange(256)
        elif choice == 2 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif choice == 3:
            data[at:at] = random.randbytes(size)
        elif choice == 4:
            del data[at : at + size]
        elif choice == 5:
            data[at:at] = data[at : at + size]
        elif choice == 6:
            there = random.randrange(len(other))
            data[at : at + random.choice((0, size))] = other[there : there + size]
        elif random.random() < 0.3:
            del data[at:]
    return bytes(data)


def rearrange(
    random: Random, frames: list[bytes], alter: Callable[[Random, bytes], bytes], share: int
) -> None:
    """Whole frames dropped, doubled and swapped, and `share` times as often altered inside a
    framing that stays valid.
    """
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(frames))
        frame = frames[at]
        choice = random.randrange(3 + share)
        if choice == 0 and len(frames) > 1:
            del frames[at]
        elif choice == 1:
            frames.insert(random.randrange(len(frames)), frame)
        elif choice == 2:
            other = random.randrange(len(frames))
            frames[at], frames[other] = frames[other], frame
        else:
            frames[at] = alter(random, frame)


def check_one(
    where: str,
    seed: int,
    number: int,
    recordings: list[Recorded[RoleT]],
    attempt: Callable[[Random, Recorded[RoleT], bytes], None],
) -> None:
    """One input, the same for the same two numbers. A failure says how to repeat it."""
    random = Random(seed << 32 | number)
    first, second = recordings
    recorded, other = (first, second) if random.random() < 0.7 else (second, first)
    try:
        attempt(random, recorded, other.said)
    except BaseException as error:
        error.add_note(f"{where}.check({seed}, {number})")
        raise


def main(fuzz: Callable[[int, int], None]) -> None:
    fuzz(int(sys.argv[1]), int(sys.argv[2]))
    print(f"{sys.argv[2]} inputs of seed {sys.argv[1]} did no harm")
