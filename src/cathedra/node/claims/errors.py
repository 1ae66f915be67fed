"""Why a pod's claims could not be prepared or let go. The texts are the kubelet's; they end up in events."""

from __future__ import annotations

__all__ = ["ClaimError", "CorruptCheckpoint", "PrepareError", "UnprepareError"]


class ClaimError(Exception):
    """One thing that is wrong with one claim or driver."""


class PrepareError(ClaimError):
    """A pod's claims are not prepared; trying again later is right."""


class UnprepareError(ClaimError):
    """A pod's claims are still held by drivers; trying again later is right."""


class CorruptCheckpoint(Exception):
    """The claim-info file cannot be trusted; starting without it would leak claims."""
