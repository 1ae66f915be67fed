"""Writing claims for the scheduler: reservations for pods, and requests to have allocations back."""

from __future__ import annotations

import logging
from typing import Any, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import replace
from cathedra.classic.anyclaim import AnyClaim, C, consumer_of, ref_of
from cathedra.client.client import Client

__all__ = ["request_deallocation", "reserve", "withdraw"]

_LOG: Final = logging.getLogger(__name__)


async def reserve(client: Client, claim: C, pod: Pod) -> C:
    """Enter the pod among the claim's consumers.

    Raises:
        StatusError: the server refused, as when another pod was faster.
        ConnectionError: the server cannot be reached.
    """
    return await _write(client, claim, reserved_for=(*claim.status.reserved_for, consumer_of(claim, pod)))


async def withdraw(client: Client, claim: AnyClaim, pod: Pod) -> None:
    """Take the pod out of the claim's consumers; the allocation stays.

    Raises:
        StatusError, ConnectionError: the server refused or cannot be reached.
    """
    rest = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != pod.metadata.uid)
    await _write(client, claim, reserved_for=rest)


async def request_deallocation(client: Client, claim: AnyClaim) -> None:
    """Ask the driver to take its allocation back; the claim has no consumer from then on.

    Raises:
        StatusError, ConnectionError: the server refused or cannot be reached.
    """
    await _write(client, claim, reserved_for=(), deallocation_requested=True)
    _LOG.info("%s/%s: deallocation requested", claim.metadata.namespace, claim.metadata.name)


async def _write(client: Client, claim: C, **changes: Any) -> C:
    changed = replace(claim, status=replace(claim.status, **changes))
    written: C = await client.resource(ref_of(claim), claim.metadata.namespace).update_status(changed)
    return written
