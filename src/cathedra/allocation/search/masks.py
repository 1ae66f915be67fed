"""Sets of devices as integers: bit n is the device at position n in the order of the search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["bits", "mask_of", "positions"]


def positions(mask: int) -> Iterator[int]:
    """The positions in ``mask``, ascending."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def bits(mask: int) -> Iterator[int]:
    """Each position of ``mask`` as a mask of its own, ascending."""
    while mask:
        yield mask & -mask
        mask &= mask - 1


def mask_of(members: Iterable[int]) -> int:
    """The mask with these positions."""
    mask = 0
    for position in members:
        mask |= 1 << position
    return mask
