"""The objects that passed lately over a connection, numbered alike at both ends.

The sender numbers what it sends; the receiver counts with it. An object is referred to by its number only as long as it
is among the last `WINDOW`, which both know.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["WINDOW", "ReceivedObjects", "SentObjects"]

WINDOW: Final = 1024
"""Objects that both sides keep. An answer and its event pass within a turn of the loop or two: few suffice."""


class SentObjects:
    """The sender's end: which objects the receiver has."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._kept: list[tuple[Any, tuple[int, int]] | None] = [None] * WINDOW
        self._last = 0

    def number_of(self, obj: Any, form: int) -> int:
        """The number of an object that the receiver has in that form; 0: it has not."""
        return self._numbers.get((id(obj), form), 0)

    def add(self, obj: Any, form: int) -> int:
        """The number of an object that is being sent."""
        # The object is held as long as its identity is a key: another one cannot take its address.
        key = (id(obj), form)
        place = self._last % WINDOW
        oldest = self._kept[place]
        if oldest is not None:
            del self._numbers[oldest[1]]
        self._kept[place] = obj, key
        self._last += 1
        self._numbers[key] = self._last
        return self._last


class ReceivedObjects:
    """The receiver's end."""

    def __init__(self) -> None:
        self._kept: list[Any] = [None] * WINDOW
        self._last = 0

    def add(self, obj: Any) -> None:
        """Count an object that came."""
        self._kept[self._last % WINDOW] = obj
        self._last += 1

    def find(self, number: int) -> Any:
        """The object of that number.

        Raises:
            IndexError: it is none of the last `WINDOW`.
        """
        if not max(self._last - WINDOW, 0) < number <= self._last:
            raise IndexError(number)
        return self._kept[(number - 1) % WINDOW]
