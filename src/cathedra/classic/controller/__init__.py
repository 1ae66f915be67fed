"""Library for the controllers of classic drivers: subclass `ClassicDriver`, and run a `ClassicController` with it.

    from cathedra.classic.controller import Allocation, ClassicController, ClassicDriver

    class Cards(ClassicDriver):
        async def allocate(self, claims, selected_node): ...

    await ClassicController(client, "cards.example.com", Cards(), clock=SystemClock()).run()

`driver` has the interface of a driver. `controller` watches claims and scheduling contexts, and handles finalizers,
reservations and retries (docs/spec/driver-sdk.md §16).
"""

from cathedra.classic.controller.controller import ClassicController
from cathedra.classic.controller.driver import Allocation, ClaimAllocation, ClassicDriver

__all__ = ["Allocation", "ClaimAllocation", "ClassicController", "ClassicDriver"]
