"""Objects that a cluster brings along for its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef

__all__ = ["install"]


async def install(client: Client, wanted: Iterable[tuple[ResourceRef[Any], Any]]) -> None:
    """Create these objects, all at once so that they share a commit; what is there already stays as it is.

    Raises:
        StatusError: one of them was refused.
    """
    await asyncio.gather(*(_create(client, ref, obj) for ref, obj in wanted))


async def _create(client: Client, ref: ResourceRef[Any], obj: Any) -> None:
    try:
        await client.resource(ref, obj.metadata.namespace).create(obj)
    except StatusError as error:
        if not error.is_already_exists:
            raise
