"""Writing claims for the scheduler: reservations for pods, and requests to have allocations back."""

from __future__ import annotations

import logging
from typing import Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import replace
from cathedra.classic.resources import CLAIMS
from cathedra.client.client import Client

__all__ = ["consumer_of", "request_deallocation", "reserve", "withdraw"]

_LOG: Final = logging.getLogger(__name__)


def consumer_of(pod: Pod) -> v1alpha2.ResourceClaimConsumerReference:
    """The entry in ``reservedFor`` that reserves a claim for the pod."""
    return v1alpha2.ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


async def reserve(client: Client, claim: v1alpha2.ResourceClaim, pod: Pod) -> v1alpha2.ResourceClaim:
    """Enter the pod among the claim's consumers.

    Raises:
        StatusError: the server refused, as when another pod was faster.
        ConnectionError: the server cannot be reached.
    """
    status = replace(claim.status, reserved_for=(*claim.status.reserved_for, consumer_of(pod)))
    return await client.resource(CLAIMS, claim.metadata.namespace).update_status(replace(claim, status=status))


async def withdraw(client: Client, claim: v1alpha2.ResourceClaim, pod: Pod) -> None:
    """Take the pod out of the claim's consumers; the allocation stays.

    Raises:
        StatusError, ConnectionError: the server refused or cannot be reached.
    """
    rest = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != pod.metadata.uid)
    status = replace(claim.status, reserved_for=rest)
    await client.resource(CLAIMS, claim.metadata.namespace).update_status(replace(claim, status=status))


async def request_deallocation(client: Client, claim: v1alpha2.ResourceClaim) -> None:
    """Ask the driver to take its allocation back; the claim has no consumer from then on.

    Raises:
        StatusError, ConnectionError: the server refused or cannot be reached.
    """
    status = replace(claim.status, reserved_for=(), deallocation_requested=True)
    await client.resource(CLAIMS, claim.metadata.namespace).update_status(replace(claim, status=status))
    _LOG.info("%s/%s: deallocation requested", claim.metadata.namespace, claim.metadata.name)
