"""Errors of preparing and unpreparing claims. The texts are the kubelet's, because they appear in events."""

from __future__ import annotations


class ClaimError(Exception):
    """A problem with one claim or driver."""


class PrepareError(ClaimError):
    """A pod's claims are not prepared; trying again later is right."""


class UnprepareError(ClaimError):
    """A pod's claims are still held by drivers; trying again later is right."""


class CorruptCheckpoint(Exception):
    """The claim-info file cannot be trusted; starting without it would leak claims."""
