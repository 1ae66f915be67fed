"""What placements use up, behind one protocol: constraints, counters and capacity.

Each restriction has a state of its own that is never changed: a placement gives another one. So nothing has to be taken
back when the search turns round, and a state that failed can be remembered. `State` holds those of all restrictions;
`Candidates` asks them one after the other.
"""

from __future__ import annotations

from typing import Any, Protocol

from cathedra.allocation.claims.requests import RequestOption

__all__ = ["Restriction"]


class Restriction(Protocol):
    """Limits which devices may still be placed, given those that are.

    A device is given by its position among the devices of the node, sets of devices are masks over positions. States
    are opaque to all but their restriction.
    """

    @property
    def first(self) -> Any:
        """The state before any placement."""
        ...

    def admitted(self, option: RequestOption, state: Any, left: int) -> int:
        """Those devices of ``left`` that may still be placed for ``option``."""
        ...

    def after(self, option: RequestOption, state: Any, position: int) -> Any:
        """The state after the device at ``position``, which is admitted, was placed for ``option``."""
        ...

    def suffices(self, option: RequestOption, state: Any, left: int, needed: int) -> bool:
        """Whether ``needed`` of the admitted devices ``left`` might be placed together; may say yes in vain."""
        ...
