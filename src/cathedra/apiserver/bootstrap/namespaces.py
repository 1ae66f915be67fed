"""The four namespaces that every cluster has (docs/spec/apimachinery.md §16.1)."""

from __future__ import annotations

import asyncio
from typing import Final

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import LOOPBACK
from cathedra.apiserver.request import Call
from cathedra.apiserver.routes import NAMESPACES
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.create import create

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


async def create_namespaces(server: ServerContext) -> None:
    """Create those of the system's namespaces that are missing, all in one commit."""
    missing = [name for name in SYSTEM_NAMESPACES if server.registry.find(NAMESPACES, name) is None]
    await asyncio.gather(*(_create(server, Namespace(metadata=ObjectMeta(name=name))) for name in missing))


async def _create(server: ServerContext, obj: KubeObject) -> None:
    definition = server.registry.table(NAMESPACES).definition
    call = Call(user=LOOPBACK, verb="create", definition=definition, version=definition.versions[0])
    try:
        await create(server, call, obj)
    except StatusError as error:
        if not error.is_already_exists:  # another server on the same store was faster
            raise
