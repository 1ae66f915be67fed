"""The nomination in a pod's status: the node on which room is made for it, or to which it is on its way.

Autoscalers and other schedulers read it (KEP-5278), and a scheduler that starts anew finds it. No pod depends on it, so
a refusal is logged and nothing else happens.
"""

from __future__ import annotations

import logging

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.client.transport import PatchType

__all__ = ["write_nomination"]

_LOG = logging.getLogger(__name__)


async def write_nomination(client: Client, pod: Pod, node: str) -> None:
    """Have the status of ``pod`` name ``node``; "" takes a nomination back."""
    metadata = pod.metadata
    patch = {"metadata": {"uid": metadata.uid}, "status": {"nominatedNodeName": node or None}}
    try:
        await client.resource(PODS, metadata.namespace).patch(metadata.name, PatchType.MERGE, patch, "status")
    except (StatusError, ConnectionError) as failure:
        _LOG.warning("%s/%s: nomination not written: %s", metadata.namespace, metadata.name, failure)
