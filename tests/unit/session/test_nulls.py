"""Bodies with nulls that a session's client sends are taken as those with nothing there, for every kind."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.resources import resource_ref
from cathedra.client.transport import APICall, ResourceRef
from cathedra.clock import LoopClock
from cathedra.kinds.definition import ResourceDefinition
from cathedra.releases import FeatureGates
from cathedra.session.server import listen_on_socket
from cathedra.session.transport import SessionTransport, UnixConnection
from tests.unit.api.nulled import nulled
from tests.unit.apiserver.plain_definitions import plain_definitions
from tests.unit.session.serving import ADMIN, TOKENS, served

DEFINITIONS = plain_definitions()
ROUNDS = 3


@asynccontextmanager
async def session(folder: Path) -> AsyncIterator[SessionTransport]:
    """A session with a server that has no rules for objects, so that any may be written."""
    clock = LoopClock(asyncio.get_running_loop())
    config = ServerConfig(gates=FeatureGates.for_release(), definitions=DEFINITIONS, authorization=False)
    server = await APIServer.open(config, clock=clock, random=random.Random(1))
    connection = UnixConnection(folder / "api.sock")
    try:
        await listen_on_socket(server, folder / "api.sock", TOKENS)
        yield SessionTransport(connection, ADMIN, agent="tests")
    finally:
        connection.close()
        await server.close()


def body_of(value: dict[str, Any], name: str) -> bytes:
    """The object as it is sent under a name; nothing else in its metadata matters here."""
    return json.dumps({**value, "metadata": {"name": name, "labels": None}}).encode()


async def outcome(answer: Awaitable[Any], name: str) -> Any:
    """The object, but for its metadata, or why it is refused."""
    try:
        return replace(await answer, metadata=ObjectMeta())
    except StatusError as error:
        return error.code, str(error).replace(name, "NAME")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.plural)
async def test_an_object_that_is_written_with_nulls_is_the_one_with_nothing_there(
    definition: ResourceDefinition[Any], tmp_path: Path
) -> None:
    (version,) = definition.versions
    ref: ResourceRef[Any] = ResourceRef(
        definition.group, version.name, definition.plural, definition.kind, definition.namespaced, version.type
    )
    namespace = "default" if definition.namespaced else ""
    chance = random.Random(definition.plural)
    async with session(tmp_path) as api:
        for number in range(ROUNDS):
            for verb in ("create", "update"):
                outcomes = []
                for form, value in zip(("null", "none"), nulled(version.type, chance), strict=True):
                    name = f"{form}-{number}"
                    at = "" if verb == "create" else name
                    call = APICall(verb, ref, namespace, at, body=msgspec.Raw(body_of(value, name)))
                    outcomes.append(await outcome(api.call(call), name))
                assert outcomes[0] == outcomes[1]


async def test_null_is_nothing_in_the_schemas_of_a_definition(tmp_path: Path) -> None:
    """They are opaque JSON to the struct, and Kubernetes' types to the API."""
    holes = dict.fromkeys(("required", "properties", "allOf", "enum", "x-kubernetes-validations", "items"))
    schema = {"type": "object", "properties": {"spec": {"type": "object", **holes}}, "required": None}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing", "shortNames": None}
    spec = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]}
    body = msgspec.Raw(json.dumps({"metadata": {"name": "things.x.io"}, "spec": spec}).encode())
    ref = resource_ref(CustomResourceDefinition, "customresourcedefinitions", namespaced=False)
    async with served(tmp_path) as there:
        api = there.user()
        made = await api.call(APICall("create", ref, body=body))
        again = await api.call(APICall("update", ref, "", "things.x.io", body=body))
    expected = {"type": "object", "properties": {"spec": {"type": "object"}}}
    for shown in (made, again):
        assert shown.spec.versions[0].schema.open_apiv3_schema.load() == expected
