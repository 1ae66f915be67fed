"""The tools over HTTP: rights, forms, and what an answer does not show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from cathedra.mcp.http import MOST_BYTES
from tests.running import run_with
from tests.unit.mcp.asked import ADMIN, STRANGER, TEAM_A, TEAM_B, Asking, asking

PATHS = ("/explain", "/devices", "/usage", "/simulate", "/lint", "/match", "/openapi.json")
MANIFEST = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
)


@run_with(asking)
async def test_without_a_valid_token_every_path_is_refused_as_by_the_api_server(asked: Asking) -> None:
    for path in PATHS:
        for token in ("", "forged"):
            status, found, _ = await asked.request(path, token=token)
            assert status == 401
            assert (found["kind"], found["reason"]) == ("Status", "Unauthorized")


@run_with(asking)
async def test_a_pod_is_explained_to_users_of_its_namespace(asked: Asking) -> None:
    status, found = await asked.get("/explain", TEAM_A, pod="team-a/next-a")
    assert status == 200
    assert (found["kind"], found["result"]["kind"]) == ("Answer", "Explanation")
    assert found["result"]["subject"] == "pod team-a/next-a"
    assert found["result"]["verdict"] == "does not fit"
    status, found = await asked.get("/explain", TEAM_A, claim="team-a/train-a")
    assert (status, found["result"]["verdict"]) == (200, "allocated")


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        (
            {"pod": "team-b/next-b"},
            'pods is forbidden: User "{}" cannot list resource "pods" in API group "" in the namespace "team-b"',
        ),
        ({"pod": "team-b/none"}, "pods is forbidden"),
        ({"claim": "team-b/train-b"}, "pods is forbidden"),
        ({"namespace": "team-b"}, "pods is forbidden"),
        (
            {"subject": "deployment/web", "namespace": "team-a"},
            'cannot list resource "deployments" in API group "apps" in the namespace "team-a"',
        ),
    ],
)
@run_with(asking)
async def test_without_rights_on_the_namespace_the_missing_one_is_named(
    asked: Asking, *, query: dict[str, str], missing: str
) -> None:
    status, found = await asked.get("/explain", TEAM_A, **query)
    assert (status, found["reason"]) == (403, "Forbidden")
    assert missing.format("system:serviceaccount:default:team-a") in found["message"]


@run_with(asking)
async def test_without_rights_on_nodes_and_devices_nothing_is_answered_but_the_use_of_a_namespace(
    asked: Asking,
) -> None:
    for path in ("/devices", "/usage", "/match", "/explain"):
        status, found = await asked.get(path, STRANGER, **({"expression": "true"} if path == "/match" else {}))
        assert (status, found["reason"]) == (403, "Forbidden")
        assert 'cannot list resource "nodes" in API group "" at the cluster scope' in found["message"]
    assert (await asked.get("/usage", STRANGER, namespace=TEAM_A))[0] == 403
    status, found = await asked.get("/usage", TEAM_B, namespace=TEAM_B, by="class")
    assert (status, found["result"]["rows"][0]["devices"]) == (200, 1)


def secrets_in(answer: Any) -> Sequence[str]:
    text = json.dumps(answer)
    return [word for word in ("team-b", "train-b", "next-b", "secret") if word in text]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/explain", {"pod": "team-a/next-a"}),
        ("/explain", {}),
        ("/devices", {}),
        ("/devices", {"node": "n1"}),
        ("/usage", {}),
        ("/usage", {"by": "node"}),
        ("/match", {"expression": "true"}),
    ],
)
@run_with(asking)
async def test_what_a_user_may_not_list_is_in_no_answer(asked: Asking, *, path: str, query: dict[str, str]) -> None:
    status, found = await asked.get(path, TEAM_A, detail="full", **query)
    assert status == 200
    # The user's own claim is shown as it is.
    own = json.loads(json.dumps(found).replace("secret-request", "").replace("secret-label-train-a", ""))
    assert secrets_in(own) == []
    status, found = await asked.get(path, ADMIN, detail="full", **query)
    assert status == 200
    assert path == "/match" or "team-b" in json.dumps(found) or path == "/usage"


@run_with(asking)
async def test_devices_that_hidden_claims_hold_are_held(asked: Asking) -> None:
    _, found = await asked.get("/devices", TEAM_A)
    assert found["result"]["total"] == {"name": "", "devices": 2, "held": 2, "free": 0} | found["result"]["total"]
    holders = {one["device"]: one["holders"][0]["claim"] for one in found["result"]["devices"]}
    assert holders["gpu-0"] == "team-a/train-a"
    assert holders["gpu-1"].startswith("(hidden)/claim-")
    _, again = await asked.get("/devices", TEAM_A)
    assert again["result"] == found["result"]
    _, found = await asked.get("/usage", TEAM_A)
    assert {one["name"]: one["devices"] for one in found["result"]["rows"]} == {"team-a": 1, "(hidden)": 1}


@run_with(asking)
async def test_manifests_are_explained_checked_and_bounded(asked: Asking) -> None:
    status, found = await asked.post("/explain", TEAM_A, manifests=MANIFEST, namespace=TEAM_A)
    assert (status, found["result"]["verdict"]) == (200, "fits")
    assert (await asked.post("/explain", TEAM_A, manifests=MANIFEST, namespace=TEAM_B))[0] == 403
    # Without the cluster there is nothing to be hidden.
    status, found = await asked.post("/lint", STRANGER, manifests=MANIFEST)
    assert (status, found["result"]["kind"]) == (200, "LintReport")
    assert (await asked.post("/lint", STRANGER, manifests=MANIFEST, against=True))[0] == 403
    status, found, _ = await asked.request("/lint", STRANGER, method="POST", body=b"x" * (MOST_BYTES + 1))
    assert (status, found["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("path", "query", "status", "why"),
    [
        ("/explain", {"pod": "next-a"}, 400, "pod has the form NAMESPACE/NAME"),
        ("/explain", {"pod": "a/b", "claim": "a/b"}, 400, "give one of pod, claim and subject"),
        ("/explain", {"pod": "a/b", "namespace": "c"}, 400, "names another one"),
        ("/explain", {"pod": "team-a/none"}, 404, 'pods "none" not found'),
        ("/explain", {"subject": "lamp/x"}, 400, "is not of the form KIND/NAME"),
        ("/devices", {"node": "n9"}, 400, "there is no node 'n9'"),
        ("/devices", {"nod": "n1"}, 400, "devices has no argument 'nod'"),
        ("/devices", {"free": "yes"}, 400, "free is true or false"),
        ("/devices", {"detail": "most"}, 400, "detail is summary or full"),
        ("/match", {}, 400, "match needs the argument 'expression'"),
        ("/match", {"expression": "device."}, 400, "does not compile"),
        ("/usage", {"since": "7d"}, 400, "there is no history"),
        ("/simulate", {}, 405, "/simulate has POST, not GET"),
        ("/nothing", {}, 404, "the server could not find the requested resource"),
    ],
)
@run_with(asking)
async def test_an_error_is_a_status(asked: Asking, *, path: str, query: dict[str, str], status: int, why: str) -> None:
    code, found = await asked.get(path, ADMIN, **query)
    assert (code, found["kind"], found["code"]) == (status, "Status", status)
    assert why in found["message"]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"a": ' + b"[" * 100_000, b"\xff"])
@run_with(asking)
async def test_a_body_that_is_no_object_is_an_error(asked: Asking, *, body: bytes) -> None:
    status, found, _ = await asked.request("/lint", ADMIN, method="POST", body=body)
    assert (status, found["reason"]) == (400, "BadRequest")


@run_with(asking)
async def test_the_openapi_document_is_for_everyone_who_is_known(asked: Asking) -> None:
    status, found = await asked.get("/openapi.json", STRANGER)
    assert (status, found["openapi"]) == (200, "3.1.0")
