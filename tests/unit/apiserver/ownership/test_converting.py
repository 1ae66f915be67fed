"""Ownership across versions that a program outside converts, without that program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from cathedra.api.core.meta_v1 import ManagedFieldsEntry
from cathedra.api.status import failure
from cathedra.api.struct import RawJSON
from cathedra.api.struct import replace as replaced
from cathedra.apiserver.custom.objects import content, with_content
from cathedra.apiserver.ownership.converting import tracked_converting, with_other_versions
from tests.unit.apiserver.custom.things import call as call_of
from tests.unit.apiserver.custom.things import kind, thing, version

DEFINITION = kind(version("v1"), version("v2"))


class Doubling:
    """In v1 sizes are counted in halves; requests are of v2."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False

    async def between(self, obj: Any, api_version: str, wanted: str) -> Any:
        self.asked.append(wanted)
        if self.fails:
            raise failure(500, "", "no")
        if not wanted.endswith("/v1"):
            raise KeyError(wanted)
        made = DEFINITION.version("v1").type
        return with_content(made, obj.metadata, {"spec": {"size": 2 * content(obj)["spec"]["size"]}})

    async def seen(self, entries: Sequence[Any], api_version: str) -> list[Any]:
        return list(entries)

    async def stored(self, obj: Any, api_version: str) -> Any:
        return obj


def owned(api_version: str, size: int) -> Any:
    """A thing whose size belongs to a manager in another version."""
    entry = ManagedFieldsEntry(
        manager="other",
        operation="Update",
        api_version=api_version,
        fields_type="FieldsV1",
        fields_v1=RawJSON(b'{"f:spec":{"f:size":{}}}'),
    )
    made = thing(DEFINITION, spec={"size": size})
    return replaced(made, metadata=replaced(made.metadata, managed_fields=(entry,)))


def in_call(conversion: Doubling | None) -> Any:
    made = call_of(replace(DEFINITION, conversion=conversion))
    return made.but(field_manager="me")


async def written(conversion: Doubling, api_version: str, size: int) -> list[str]:
    """Who owns something after a write of ``size``."""
    live = owned(api_version, 1)
    new = replaced(thing(DEFINITION, spec={"size": size}), metadata=live.metadata)
    made = await tracked_converting(in_call(conversion), live, new, 0)
    return [entry.manager for entry in made.metadata.managed_fields]


async def test_a_manager_in_another_version_keeps_what_the_write_leaves_alone_there() -> None:
    conversion = Doubling()
    assert await written(conversion, "example.com/v1", 1) == ["other"]
    assert conversion.asked == ["example.com/v1", "example.com/v1"]


async def test_it_loses_what_changes_in_its_version() -> None:
    assert await written(Doubling(), "example.com/v1", 2) == ["me"]


async def test_a_version_that_is_no_more_loses_its_managers() -> None:
    assert await written(Doubling(), "example.com/v0", 1) == []


async def test_nothing_is_owned_any_more_where_the_conversion_fails() -> None:
    conversion = Doubling()
    conversion.fails = True
    assert await written(conversion, "example.com/v1", 1) == []


def test_where_nothing_converts_the_result_is_there_at_once() -> None:
    assert with_other_versions(in_call(None), None, lambda views: views) is None
