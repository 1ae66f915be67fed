"""Component statuses: there are none, and they are deprecated."""

from __future__ import annotations

from tests.unit.apiserver.asgi import open_asgi

PATH = "/api/v1/componentstatuses"


async def test_component_statuses_are_an_empty_list_with_a_warning() -> None:
    async with open_asgi() as asgi:
        listed = await asgi("GET", PATH)
        assert (listed.status, listed.json["kind"], listed.json["items"]) == (200, "ComponentStatusList", [])
        assert listed.warnings == ['299 - "v1 ComponentStatus is deprecated in v1.19+"']
        missing = await asgi("GET", f"{PATH}/scheduler")
        assert (missing.status, missing.json["message"]) == (404, 'componentstatuses "scheduler" not found')
        assert (await asgi("POST", PATH, {})).status == 405
        assert (await asgi("GET", f"{PATH}/scheduler/status")).status == 404
