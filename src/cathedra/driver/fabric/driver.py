"""The class that the author of a driver for fabric-attached devices derives from.

It has two sides. The controller, one for the cluster, publishes `FabricDriver.pools` and calls `FabricDriver.attach`
and `FabricDriver.detach`; on nodes the same class is a driver like any other, whose `prepare` finds the device attached
(KEP-5007).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

import msgspec

from cathedra.driver.claim import Claim, ClaimedDevice, Ref
from cathedra.driver.device import Pool
from cathedra.driver.driver import Driver


class Attachment(msgspec.Struct, frozen=True):
    """A device that is attached for a claim, or may be: then attaching it was interrupted."""

    pool: str
    device: str
    node: str
    """"" where the claim can be used on several nodes."""
    share_id: str | None = None

    def excludes(self, other: Attachment) -> bool:
        """Return True if the two cannot be at a time: the same device, not in shares."""
        same = (self.pool, self.device) == (other.pool, other.device)
        return same and (self.share_id is None or self.share_id == other.share_id)

    def __str__(self) -> str:
        return f"{self.pool}/{self.device}"


class FabricDriver(Driver):
    """A driver of devices that are attached to the node on which their claim is used, before its pod is bound.

    Set `name`, override `pools`, `attach` and `detach`; and what a node has to do, as of any `Driver`.
    """

    attached_condition: str = "Attached"
    """The binding condition of the devices: the scheduler binds a pod when it is True."""

    failed_condition: str = "AttachFailed"
    """The binding failure condition: when it is True the scheduler gives the claim other devices."""

    def pools(self) -> Pool | Iterable[Pool] | Awaitable[Pool | Iterable[Pool]]:
        """Return the pools of the cluster; one that selects no nodes can be reached from all.

        Devices that name no binding conditions get those above, and are bound to the node of their claim.
        """
        return ()

    def attach(self, claim: Claim, device: ClaimedDevice, node: str) -> Awaitable[None] | None:
        """Attach ``device`` to ``node``. Must be idempotent: after a crash it is called again.

        `Retry` repeats the call with growing pauses, until it succeeds or the scheduler gives up. Any other exception
        is final: the scheduler gives up at once, and shows the text. The call is cancelled when the claim no longer has
        the device; then, as after every attempt, the device is detached.
        """
        return None

    def detach(self, ref: Ref, attachment: Attachment) -> Awaitable[None] | None:
        """Undo `attach`, or what it got done before it failed. The claim and the node may be gone. Must be idempotent.

        Whatever it raises, it is called again with growing pauses; no other claim gets the device before it succeeds.
        """
        return None

    def resources(self) -> Pool | Iterable[Pool] | Awaitable[Pool | Iterable[Pool]]:
        """Return pools of a node's own beside those of the fabric: none."""
        return ()
