"""Lists whose JSON is kept are still those of the moment."""

from __future__ import annotations

from typing import Any

from tests.unit.apiserver.asgi import Door, open_door

MAPS = "/api/v1/namespaces/default/configmaps"


async def names(door: Door, path: str = MAPS) -> list[str]:
    listed: Any = (await door("GET", path)).json
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_a_list_shows_every_change() -> None:
    async with open_door() as door:
        assert await names(door) == []
        for name in ("b", "a"):
            await door("POST", MAPS, {"metadata": {"name": name, "labels": {"n": name}}})
            assert name in await names(door)
        assert await names(door) == await names(door) == ["a", "b"]
        assert await names(door, f"{MAPS}?labelSelector=n%3Da") == ["a"]
        assert await names(door, "/api/v1/configmaps?labelSelector=n") == ["a", "b"]
        await door("DELETE", f"{MAPS}/a")
        assert await names(door) == ["b"]
        assert await names(door, f"{MAPS}?labelSelector=n%3Da") == []


async def test_a_kept_list_says_the_present_revision() -> None:
    async with open_door() as door:
        first = (await door("GET", MAPS)).json
        await door("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        second = (await door("GET", MAPS)).json
    assert first["items"] == second["items"] == []
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_pages_are_not_mistaken_for_the_whole() -> None:
    async with open_door() as door:
        for number in range(3):
            await door("POST", MAPS, {"metadata": {"name": f"m{number}"}})
        page = (await door("GET", f"{MAPS}?limit=2")).json
        assert len(page["items"]) == 2
        assert page["metadata"]["remainingItemCount"] == 1
        assert await names(door, f"{MAPS}?limit=3") == await names(door) == ["m0", "m1", "m2"]
