"""What comes of looking for a node for one pod."""

from __future__ import annotations

import msgspec

from cathedra.scheduler.framework.diagnosis import Diagnosis

__all__ = ["Refused"]


class Refused(msgspec.Struct, frozen=True):
    """No node will do for the pod now."""

    diagnosis: Diagnosis
    nominated: str | None = None
    """The node being cleared for the pod; "" takes an older nomination back; None leaves it."""

    @property
    def message(self) -> str:
        """Why, in one sentence."""
        return self.diagnosis.message() if self.diagnosis.nodes else "no nodes available to schedule pods"
