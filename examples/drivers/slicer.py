"""A driver of cards that can be cut: whole, in halves or in quarters, kept apart by counters.

    cathedra driver --module slicer:Slicer --node node-0

Every form of a card is a device of its own, and says what it consumes of the card's counters. The allocator gives out a
device only while its counters suffice, so a quarter that is taken makes one half and the whole unavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from cathedra.driver import Claim, Device, DeviceHealth, Driver, Edits, Health, Pool, Prepared, run

CARDS = 2
SLOTS = 4
MEMORY_PER_SLOT = 10
"""GiB."""
FORMS = {"whole": 4, "half": 2, "quarter": 1}
"""How many slots a form takes."""


class Slicer(Driver):
    """Two cards of four slots on every node."""

    name = "slicer.example.com"

    def resources(self) -> Pool:
        """All forms of all cards, and what the forms of a card share."""
        devices = [device for card in range(CARDS) for device in self._forms_of(card)]
        return Pool(devices, counters={f"card-{card}": self._consumed(range(SLOTS)) for card in range(CARDS)})

    def _forms_of(self, card: int) -> Iterator[Device]:
        for form, size in FORMS.items():
            for first in range(0, SLOTS, size):
                slots = range(first, first + size)
                yield Device(
                    f"card-{card}-{form}-{first}",
                    attributes={"card": card, "form": form, "slots": size},
                    capacity={"memory": f"{size * MEMORY_PER_SLOT}Gi"},
                    consumes={f"card-{card}": self._consumed(slots)},
                )

    @staticmethod
    def _consumed(slots: range) -> dict[str, int | str]:
        """A counter for each slot, so that forms may not overlap; and one for the memory of all."""
        return {f"slot-{slot}": 1 for slot in slots} | {"memory": f"{len(slots) * MEMORY_PER_SLOT}Gi"}

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """Tell the container which slots of which card it has; a real driver would cut the card here."""
        for device in claim.allocations:
            _, card, form, first = device.device.split("-")
            slots = range(int(first), int(first) + FORMS[form])
            yield device.prepared(Edits(env={f"CARD_{card}_SLOTS": ",".join(map(str, slots))}))

    async def health(self) -> AsyncIterator[list[DeviceHealth]]:
        """All is well; a real driver would wait for news of its cards here."""
        yield [DeviceHealth(device.name, Health.HEALTHY) for device in self.resources().devices]
        await asyncio.Event().wait()


if __name__ == "__main__":
    run(Slicer())
