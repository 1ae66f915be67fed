"""Options of a deletion in the request's body."""

from __future__ import annotations

from tests.unit.apiserver.asgi import open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_options_that_do_not_fit_are_refused_in_gos_words_and_nothing_is_deleted() -> None:
    async with open_asgi() as asgi:
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        refused = await asgi("DELETE", f"{MAPS}/a", {"gracePeriodSeconds": "soon"})
        assert refused.status == 400
        assert refused.json["message"] == (
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )
        assert (await asgi("GET", f"{MAPS}/a")).status == 200


async def test_options_in_the_body_count() -> None:
    async with open_asgi() as asgi:
        created = await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        wrong = await asgi("DELETE", f"{MAPS}/a", {"preconditions": {"uid": "another"}})
        assert wrong.status == 409
        right = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": created.json["metadata"]["uid"]}}
        assert (await asgi("DELETE", f"{MAPS}/a", right)).status == 200
        assert (await asgi("GET", f"{MAPS}/a")).status == 404
