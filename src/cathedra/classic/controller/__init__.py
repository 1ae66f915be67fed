"""The library for the controllers of classic drivers: subclass `ClassicDriver`, run a `ClassicController` with it.

    from cathedra.classic.controller import Allocation, ClassicController, ClassicDriver

    class Cards(ClassicDriver):
        async def allocate(self, claims, selected_node): ...

    await ClassicController(client, "cards.example.com", Cards(), clock=SystemClock()).run()

What a driver decides is in `driver`; watching claims and scheduling contexts, finalizers, reservations and retries are
the controller's (docs/spec/driver-sdk.md §16).
"""

from cathedra.classic.controller.controller import ClassicController
from cathedra.classic.controller.driver import Allocation, ClaimAllocation, ClassicDriver

__all__ = ["Allocation", "ClaimAllocation", "ClassicController", "ClassicDriver"]
