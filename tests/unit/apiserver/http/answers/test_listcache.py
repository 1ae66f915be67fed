"""Lists whose JSON is kept are still those of the moment."""

from __future__ import annotations

from typing import Any

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.authentication.user import LOOPBACK
from cathedra.apiserver.http.answers.render import ListCache, stamp_of
from cathedra.apiserver.request import Call
from cathedra.client.transport import ListOptions
from tests.requirements import with_memos
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"


async def names(asgi: ASGIClient, path: str = MAPS) -> list[str]:
    listed: Any = (await asgi("GET", path)).json
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_a_list_shows_every_change() -> None:
    async with open_asgi() as asgi:
        assert await names(asgi) == []
        for name in ("b", "a"):
            await asgi("POST", MAPS, {"metadata": {"name": name, "labels": {"n": name}}})
            assert name in await names(asgi)
        assert await names(asgi) == await names(asgi) == ["a", "b"]
        assert await names(asgi, f"{MAPS}?labelSelector=n%3Da") == ["a"]
        assert await names(asgi, "/api/v1/configmaps?labelSelector=n") == ["a", "b"]
        await asgi("DELETE", f"{MAPS}/a")
        assert await names(asgi) == ["b"]
        assert await names(asgi, f"{MAPS}?labelSelector=n%3Da") == []


async def test_a_kept_list_says_the_present_revision() -> None:
    async with open_asgi() as asgi:
        first = (await asgi("GET", MAPS)).json
        await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        second = (await asgi("GET", MAPS)).json
    assert first["items"] == second["items"] == []
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_pages_are_not_mistaken_for_the_whole() -> None:
    async with open_asgi() as asgi:
        for number in range(3):
            await asgi("POST", MAPS, {"metadata": {"name": f"m{number}"}})
        page = (await asgi("GET", f"{MAPS}?limit=2")).json
        assert len(page["items"]) == 2
        assert page["metadata"]["remainingItemCount"] == 1
        assert await names(asgi, f"{MAPS}?limit=3") == await names(asgi) == ["m0", "m1", "m2"]


@with_memos
async def test_a_list_that_was_read_before_a_write_is_not_kept_for_later_readers() -> None:
    async with open_asgi() as asgi:
        table = asgi.server.context.registry.table(GroupResource("", "configmaps"))
        definition = asgi.server.catalog.definition(GroupResource("", "configmaps"))
        assert definition is not None
        call = Call(user=LOOPBACK, verb="list", definition=definition, version=definition.versions[0])
        kept, options = ListCache(), ListOptions()
        before = stamp_of(table)
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        kept.keep(table, call, options, b"nothing", before)
        assert kept.get(table, call, options) is None
        kept.keep(table, call, options, b"a")
        assert kept.get(table, call, options) == b"a"
