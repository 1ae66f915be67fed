"""Create: names, what the server fills in, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.apiserver.asgi import ASGIClient, open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"
NODES = "/api/v1/nodes"


async def count(client: ASGIClient) -> int:
    """Return the number of config maps, without those of the server."""
    return len((await client("GET", MAPS)).json["items"])


async def test_a_new_object_is_stored_with_what_the_server_alone_sets() -> None:
    async with open_asgi() as client:
        forged = {"name": "a", "uid": "forged", "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/forged"}
        made = await client("POST", MAPS, {"metadata": forged, "data": {"k": "v"}})
        assert made.status == 201
        metadata = made.json["metadata"]
        assert metadata["namespace"] == "default"
        assert metadata["uid"] != "forged"
        assert not metadata["creationTimestamp"].startswith("2020")
        assert "selfLink" not in metadata
        assert metadata["resourceVersion"].isdecimal()
        assert (await client("GET", f"{MAPS}/a")).json == made.json


@pytest.mark.parametrize(
    ("metadata", "status", "message"),
    [
        ({}, 422, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A_b"}, 422, 'metadata.name: Invalid value: "A_b"'),
        ({"name": "a", "labels": {"a b": "c"}}, 422, "metadata.labels: Invalid value"),
        ({"name": "a", "namespace": "other"}, 400, "the namespace of the provided object does not match the namespace"),
        ({"name": "a", "resourceVersion": "7"}, 500, "resourceVersion should not be set on objects to be created"),
    ],
)
async def test_what_is_refused_is_not_there(metadata: dict[str, Any], status: int, message: str) -> None:
    async with open_asgi() as client:
        before = await count(client)
        refused = await client("POST", MAPS, {"metadata": metadata})
        assert refused.status == status
        assert message in refused.json["message"]
        assert await count(client) == before


async def test_a_name_is_taken_once() -> None:
    async with open_asgi() as client:
        await client("POST", MAPS, {"metadata": {"name": "a"}})
        again = await client("POST", MAPS, {"metadata": {"name": "a"}})
        assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
        assert again.json["message"] == 'configmaps "a" already exists'


async def test_a_generated_name_that_is_taken_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["x-1", "x-1", "x-1", "x-2"])
    monkeypatch.setattr("cathedra.apiserver.verbs.objectmeta.generate_name", lambda base, rng: next(names))
    async with open_asgi() as client:
        made = [(await client("POST", MAPS, {"metadata": {"generateName": "x-"}})).json for _ in range(2)]
        assert [one["metadata"]["name"] for one in made] == ["x-1", "x-2"]
        assert made[1]["metadata"]["generateName"] == "x-"


async def test_a_kind_prepares_an_object_whose_name_is_made_up_already() -> None:
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    async with open_asgi() as client:
        made = await client(
            "POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"generateName": "x-"}, "spec": spec}
        )
        assert made.status == 201, made.json
        name, labels = made.json["metadata"]["name"], made.json["spec"]["template"]["metadata"]["labels"]
        assert name.startswith("x-")
        assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == name


async def test_a_name_that_is_given_goes_before_one_to_be_generated() -> None:
    async with open_asgi() as client:
        made = await client("POST", MAPS, {"metadata": {"name": "a", "generateName": "x-"}})
        assert made.json["metadata"]["name"] == "a"


async def test_eight_generated_names_that_are_taken_are_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def taken(base: str, rng: object) -> str:
        tried.append(base)
        return "a"

    monkeypatch.setattr("cathedra.apiserver.verbs.objectmeta.generate_name", taken)
    async with open_asgi() as client:
        await client("POST", MAPS, {"metadata": {"name": "a"}})
        refused = await client("POST", MAPS, {"metadata": {"generateName": "x-"}})
        assert (refused.status, refused.json["reason"]) == (409, "AlreadyExists")
        assert tried == ["x-"] * 8


async def test_a_dry_run_answers_what_would_be_and_stores_nothing() -> None:
    async with open_asgi() as client:
        made = await client("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})
        assert made.status == 201
        assert made.json["metadata"]["uid"]
        assert "resourceVersion" not in made.json["metadata"]
        assert (await client("GET", f"{MAPS}/a")).status == 404
        await client("POST", MAPS, {"metadata": {"name": "a"}})
        assert (await client("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})).status == 409


async def test_an_object_of_the_cluster_loses_its_namespace() -> None:
    async with open_asgi() as client:
        made = await client("POST", NODES, {"metadata": {"name": "n1", "namespace": "default"}})
        assert made.status == 201
        assert "namespace" not in made.json["metadata"]


async def test_owners_that_are_said_twice_are_kept_once_with_a_warning() -> None:
    async with open_asgi() as client:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
        made = await client("POST", MAPS, {"metadata": {"name": "a", "ownerReferences": [owner, owner]}})
        assert made.json["metadata"]["ownerReferences"] == [owner]
        assert any("duplicate UID(s) observed: 1" in warning for warning in made.warnings)


async def test_no_object_begins_with_its_end_and_no_manager_owns_one() -> None:
    async with open_asgi() as client:
        metadata = {"name": "a", "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
        made = await client("POST", MAPS, {"metadata": metadata, "data": {"a": "b"}})
        assert "deletionTimestamp" not in made.json["metadata"]
        (entry,) = made.json["metadata"]["managedFields"]
        assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}


@pytest.mark.parametrize(
    ("version", "query", "status"), [("5", "", 500), ("5", "?dryRun=All", 201), ("0", "", 201), ("x", "", 201)]
)
async def test_a_resource_version_is_refused_when_the_object_would_be_stored(
    version: str, query: str, status: int
) -> None:
    async with open_asgi() as client:
        made = await client("POST", f"{MAPS}{query}", {"metadata": {"name": "a", "resourceVersion": version}})
        assert made.status == status
        wrong = await client("POST", MAPS, {"metadata": {"name": "A", "resourceVersion": version}})
        assert wrong.status == 422


async def test_a_name_is_quoted_as_go_quotes_it() -> None:
    async with open_asgi() as client:
        refused = await client("POST", MAPS, {"metadata": {"name": 'a "b"'}})
        assert refused.json["message"].startswith('ConfigMap "a \\"b\\"" is invalid: metadata.name: Invalid value:')


async def test_what_a_namespace_does_not_allow_is_said_before_what_is_wrong_with_the_name() -> None:
    async with open_asgi() as client:
        request = {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}
        claim = {"metadata": {"name": "A"}, "spec": {"devices": {"requests": [request]}}}
        refused = await client("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim)
        assert [cause["field"] for cause in refused.json["details"]["causes"]] == [
            "spec.devices.requests[0].adminAccess",
            "metadata.name",
        ]


async def test_no_manager_owns_a_list_that_is_spelled_out_and_empty() -> None:
    async with open_asgi() as client:
        spec = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n", "devices": []}
        made = await client(
            "POST", "/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "a"}, "spec": spec}
        )
        (entry,) = made.json["metadata"]["managedFields"]
        assert "f:driver" in entry["fieldsV1"]["f:spec"]
        assert "f:devices" not in entry["fieldsV1"]["f:spec"]


async def test_many_selectors_are_compiled_one_by_one_and_others_have_their_turn() -> None:
    """Compiling one takes up to 10 ms, and a template may have hundreds."""
    selectors = [{"cel": {"expression": f"device.driver == 'd{number}'"}} for number in range(20)]
    exactly = {"deviceClassName": "c", "selectors": selectors}
    devices: dict[str, Any] = {"requests": [{"name": "r", "exactly": exactly}]}
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": devices}}}
    turns = 0
    async with open_asgi() as client:

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(count_turns())
        made = await client("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", template)
        counting.cancel()
        assert made.status == 201
        assert turns >= len(selectors) - 1
        broken = {**exactly, "selectors": [*selectors, {"cel": {"expression": "device.nothing"}}]}
        devices["requests"] = [{"name": "r", "exactly": broken}]
        refused = await client("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", template)
        assert refused.status == 422
        assert "selectors[20].cel.expression" in refused.json["message"]


async def test_a_refused_pod_has_the_warnings_of_its_app_armor_annotations() -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/c": "foo"}
    pod = {"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with open_asgi() as client:
        refused = await client("POST", "/api/v1/namespaces/default/pods", pod)
        assert refused.status == 422
        assert len(refused.warnings) == 1
        assert "deprecated since v1.30" in refused.warnings[0]
