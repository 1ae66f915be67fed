"""Update: what gives way, and to what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.coordination_v1 import Lease
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.resources import LEASES
from tests.running import run_with
from tests.unit.apiserver.asgi import ASGIClient, open_asgi
from tests.unit.apiserver.guarded import Guarded, guarded, refused, rule, user

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


async def made(client: ASGIClient, **more: Any) -> dict[str, Any]:
    answer = await client("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}, **more})
    assert answer.status == 201
    found: dict[str, Any] = answer.json
    return found


def but(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The object with other metadata; None takes a field away."""
    whole = {**obj["metadata"], **metadata}
    return {**obj, "metadata": {name: value for name, value in whole.items() if value is not None}}


async def test_the_stored_object_gives_way_as_a_whole() -> None:
    async with open_asgi() as client:
        old = await made(client)
        new = await client("PUT", f"{MAPS}/a", {**old, "data": {"other": "w"}})
        assert (new.status, new.json["data"]) == (200, {"other": "w"})
        for kept in ("uid", "creationTimestamp"):
            assert new.json["metadata"][kept] == old["metadata"][kept]
        assert int(new.json["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("metadata", "status", "message"),
    [
        ({"name": None}, 400, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        ({"name": "b"}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        ({"namespace": "other"}, 400, "the namespace of the provided object does not match the namespace sent on the"),
        (
            {"resourceVersion": "1"},
            409,
            "the object has been modified; please apply your changes to the latest version",
        ),
        ({"resourceVersion": "x"}, 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
        ({"uid": "other"}, 409, "Precondition failed: UID in precondition: other, UID in object meta: "),
        ({"labels": {"a b": "c"}}, 422, "metadata.labels: Invalid value"),
    ],
)
async def test_what_is_refused_changes_nothing(metadata: dict[str, Any], status: int, message: str) -> None:
    async with open_asgi() as client:
        old = await made(client)
        refused = await client("PUT", f"{MAPS}/a", but({**old, "data": {}}, **metadata))
        assert refused.status == status
        assert message in refused.json["message"]
        assert (await client("GET", f"{MAPS}/a")).json == old


async def test_what_is_not_there_cannot_be_updated() -> None:
    async with open_asgi() as client:
        refused = await client("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}})
        assert (refused.status, refused.json["message"]) == (404, 'configmaps "a" not found')


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {"spec": {}}),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", {"rules": []}),
        ("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "h"}),
        ("/api/v1/namespaces/default/endpoints", {}),
        ("/api/v1/namespaces/default/events", {"involvedObject": {"namespace": "default"}}),
        ("/api/v1/namespaces/default/limitranges", {"spec": {"limits": []}}),
        ("/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}]}}),
    ],
)
async def test_some_kinds_are_created_by_an_update(path: str, body: dict[str, Any]) -> None:
    async with open_asgi() as client:
        made = await client("PUT", f"{path}/a", {"metadata": {"name": "a"}, **body})
        assert made.status == 201, made.body
        assert made.json["metadata"]["uid"]
        again = await client("PUT", f"{path}/a", made.json)
        assert (again.status, again.json["metadata"]["uid"]) == (200, made.json["metadata"]["uid"])


@run_with(guarded)
async def test_who_creates_by_an_update_may_create(api: Guarded) -> None:
    await api.role("change", rule("update", "leases", "coordination.k8s.io"))
    await api.bind("change", user("ada"))
    leases = api.of("ada").resource(LEASES, "default")
    message = await refused(leases.update(Lease(metadata=ObjectMeta(name="a"))))
    assert message.startswith('leases.coordination.k8s.io "a" is forbidden')
    await api.role("create", rule("create", "leases", "coordination.k8s.io"))
    await api.bind("create", user("ada"))
    assert (await leases.update(Lease(metadata=ObjectMeta(name="a")))).metadata.uid


@pytest.mark.parametrize("version", [None, "0"])
async def test_an_update_without_a_version_means_the_newest(version: str | None) -> None:
    async with open_asgi() as client:
        old = await made(client)
        new = await client("PUT", f"{MAPS}/a", but({**old, "data": {}}, resourceVersion=version))
        assert (new.status, new.json.get("data")) == (200, None)


async def test_an_update_without_change_is_no_write() -> None:
    async with open_asgi() as client:
        old = await made(client)
        again = await client("PUT", f"{MAPS}/a", old)
        assert again.json["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


async def test_a_dry_run_answers_what_would_be_and_stores_nothing() -> None:
    async with open_asgi() as client:
        old = await made(client)
        would = await client("PUT", f"{MAPS}/a?dryRun=All", {**old, "data": {"k": "w"}})
        assert would.json["data"] == {"k": "w"}
        assert would.json["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
        assert (await client("GET", f"{MAPS}/a")).json == old


async def test_an_object_that_is_being_deleted_goes_with_its_last_finalizer() -> None:
    async with open_asgi() as client:
        await made(client, metadata={"name": "a", "finalizers": ["example.com/hold"]})
        await client("DELETE", f"{MAPS}/a")
        old = (await client("GET", f"{MAPS}/a")).json
        dry = await client("PUT", f"{MAPS}/a?dryRun=All", but(old, finalizers=[]))
        assert dry.status == 200
        assert (await client("GET", f"{MAPS}/a")).status == 200
        assert (await client("PUT", f"{MAPS}/a", but(old, finalizers=[]))).status == 200
        assert (await client("GET", f"{MAPS}/a")).status == 404


async def test_of_two_who_saw_the_same_state_one_wins() -> None:
    async with open_asgi() as client:
        old = await made(client)
        answers = await asyncio.gather(*(client("PUT", f"{MAPS}/a", {**old, "data": {"k": str(n)}}) for n in range(5)))
        assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409]


async def test_changes_that_name_no_version_are_made_again_from_the_newer_state() -> None:
    async with open_asgi() as client:
        await made(client)
        patches = ({"data": {f"k{n}": "v"}} for n in range(20))
        answers = await asyncio.gather(*(client("PATCH", f"{MAPS}/a", one, content_type=MERGE) for one in patches))
        assert {answer.status for answer in answers} == {200}
        assert len((await client("GET", f"{MAPS}/a")).json["data"]) == 21


@pytest.mark.parametrize(
    ("path", "spec", "rounds"),
    [
        ("deviceclasses", {}, 2),
        ("namespaces/default/resourceclaims", {"devices": {}}, 2),
        (
            "resourceslices",
            {
                "driver": "d.example.com",
                "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1},
                "allNodes": True,
            },
            1,
        ),
    ],
)
async def test_metadata_is_told_as_often_as_its_kind_looks_at_it(path: str, spec: Any, rounds: int) -> None:
    """Once for all kinds, and once or twice by the kind's own rules, which alone know Kubernetes' finalizers."""
    path = f"/apis/resource.k8s.io/v1/{path}"
    async with open_asgi() as client:
        old = (await client("POST", path, {"metadata": {"name": "a"}, "spec": spec})).json
        worse = but(old, labels={"-a": "b"}, finalizers=["f", "a b/c"])
        causes = (await client("PUT", f"{path}/a", worse)).json["details"]["causes"]
        found = [cause["field"].removeprefix("metadata.") for cause in causes]
        again = ["labels", "finalizers"]
        own = [*again, "finalizers[0]"] if rounds > 1 else []
        assert found == [*again, "labels", *own, "labels", "finalizers[0]"]
