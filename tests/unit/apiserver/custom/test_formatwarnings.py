"""Formats that nothing checks are warned of when a definition is written, each once."""

from __future__ import annotations

from typing import Any

from cathedra.apiserver.config import ServerConfig
from cathedra.releases import FeatureGates
from tests.unit.apiserver.asgi import open_asgi
from tests.unit.apiserver.custom.test_custom_resources import CRDS, definition


def with_formats(*names: str) -> dict[str, Any]:
    """A definition with a field of each format."""
    fields = {f"f{position}": {"type": "string", "format": name} for position, name in enumerate(names)}
    made = definition()
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] |= fields
    return made


async def test_unknown_formats_and_those_of_numbers_are_named() -> None:
    async with open_asgi() as asgi:
        made = await asgi("POST", CRDS, with_formats("date-time", "uuid", "quantity", "int64", "strange", "int64"))
        assert made.status == 201, made.body
        assert made.warnings == ['299 - "unrecognized format \\"int64\\""', '299 - "unrecognized format \\"strange\\""']


async def test_an_update_warns_of_what_is_new() -> None:
    async with open_asgi() as asgi:
        made = await asgi("POST", CRDS, with_formats("odd"))
        changed = made.json | {"spec": with_formats("odd", "strange")["spec"]}
        del changed["metadata"]["resourceVersion"]  # meanwhile the definition has been established
        answer = await asgi("PUT", f"{CRDS}/gpuconfigs.d.x", changed)
        assert answer.warnings == ['299 - "unrecognized format \\"strange\\""']


async def test_older_releases_say_nothing() -> None:
    config = ServerConfig(release="1.33", gates=FeatureGates.for_release("1.33"))
    async with open_asgi(config) as asgi:
        assert (await asgi("POST", CRDS, with_formats("strange"))).warnings == []
