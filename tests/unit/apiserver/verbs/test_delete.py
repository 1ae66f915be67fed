"""Delete: at once, gracefully, or when the last finalizer is gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cathedra.apiserver.storage import compaction
from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.apiserver.storage.transactions import commit_writes
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


async def made(client: ASGIClient, path: str = MAPS, name: str = "a", **values: Any) -> dict[str, Any]:
    metadata = {"name": name, **values.pop("metadata", {})}
    answer = await client("POST", path, {"metadata": metadata, **values})
    assert answer.status == 201, answer.body
    found: dict[str, Any] = answer.json
    return found


def pod(node: str = "n1", seconds: int = 30) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"spec": {"containers": containers, "nodeName": node, "terminationGracePeriodSeconds": seconds}}


async def test_what_nothing_keeps_goes_at_once() -> None:
    async with open_asgi() as client:
        old = await made(client)
        answer = await client("DELETE", f"{MAPS}/a")
        assert (answer.status, answer.json["kind"], answer.json["details"]["uid"]) == (
            200,
            "Status",
            old["metadata"]["uid"],
        )
        gone = await client("DELETE", f"{MAPS}/a")
        assert (gone.status, gone.json["message"]) == (404, 'configmaps "a" not found')


async def test_a_finalizer_keeps_an_object_which_says_that_it_is_being_deleted() -> None:
    async with open_asgi() as client:
        await made(client, metadata={"finalizers": ["example.com/hold"]})
        marked = (await client("DELETE", f"{MAPS}/a")).json["metadata"]
        assert (marked["deletionGracePeriodSeconds"], marked["finalizers"]) == (0, ["example.com/hold"])
        again = (await client("DELETE", f"{MAPS}/a")).json["metadata"]
        assert again["resourceVersion"] == marked["resourceVersion"], "nothing has changed"


async def test_a_running_pod_is_given_time_which_only_becomes_shorter() -> None:
    async with open_asgi() as client:
        old = await made(client, PODS, **pod())
        first = (await client("DELETE", f"{PODS}/a")).json["metadata"]
        assert first["deletionGracePeriodSeconds"] == 30
        assert first["generation"] == old["metadata"]["generation"] + 1
        longer = (await client("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 60})).json["metadata"]
        assert longer["deletionGracePeriodSeconds"] == 30
        shorter = (await client("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 10})).json["metadata"]
        assert shorter["deletionGracePeriodSeconds"] == 10
        assert shorter["deletionTimestamp"] < first["deletionTimestamp"]
        await client("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
        assert (await client("GET", f"{PODS}/a")).status == 404


@pytest.mark.parametrize(
    ("preconditions", "message"),
    [
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record ("),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match the ResourceVersion"),
    ],
)
async def test_a_deletion_may_mean_one_object_or_one_state_of_it(preconditions: dict[str, str], message: str) -> None:
    async with open_asgi() as client:
        old = await made(client)
        refused = await client("DELETE", f"{MAPS}/a", {"preconditions": preconditions})
        assert refused.status == 409
        assert message in refused.json["message"]
        meant = {name: old["metadata"][name] for name in preconditions}
        assert (await client("DELETE", f"{MAPS}/a", {"preconditions": meant})).status == 200


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
        ({"propagationPolicy": "Background"}, None),
        ({"orphanDependents": False}, None),
        ({}, None),
    ],
)
async def test_dependents_are_waited_for_or_orphaned_by_a_finalizer(
    options: dict[str, Any], finalizers: list[str] | None
) -> None:
    async with open_asgi() as client:
        await made(client)
        await client("DELETE", f"{MAPS}/a", options)
        left = await client("GET", f"{MAPS}/a")
        assert (left.json["metadata"]["finalizers"] if left.status == 200 else None) == finalizers


async def test_the_last_word_on_dependents_counts() -> None:
    async with open_asgi() as client:
        await made(client, metadata={"finalizers": ["orphan", "example.com/hold"]})
        kept = (await client("DELETE", f"{MAPS}/a")).json["metadata"]["finalizers"]
        assert sorted(kept) == ["example.com/hold", "orphan"]
        changed = (await client("DELETE", f"{MAPS}/a", {"propagationPolicy": "Foreground"})).json["metadata"]
        assert sorted(changed["finalizers"]) == ["example.com/hold", "foregroundDeletion"]


async def test_pods_of_a_job_are_orphaned_by_default_with_a_warning() -> None:
    async with open_asgi() as client:
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        await made(client, JOBS, spec={"template": template})
        answer = await client("DELETE", f"{JOBS}/a")
        assert any("child pods are preserved by default when jobs are deleted" in text for text in answer.warnings)
        assert (await client("GET", f"{JOBS}/a")).json["metadata"]["finalizers"] == ["orphan"]


async def test_a_dry_run_answers_what_would_be_and_deletes_nothing() -> None:
    async with open_asgi() as client:
        await made(client, PODS, **pod())
        marked = await client("DELETE", f"{PODS}/a?dryRun=All")
        assert "deletionTimestamp" in marked.json["metadata"]
        assert (await client("DELETE", f"{PODS}/a?dryRun=All", {"gracePeriodSeconds": 0})).status == 200
        assert "deletionTimestamp" not in (await client("GET", f"{PODS}/a")).json["metadata"]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_of_the_system_stay(name: str) -> None:
    async with open_asgi() as client:
        refused = await client("DELETE", f"/api/v1/namespaces/{name}")
        assert refused.status == 403
        assert refused.json["message"].endswith("this namespace may not be deleted")


async def test_a_collection_is_deleted_as_far_as_it_is_selected() -> None:
    async with open_asgi() as client:
        for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
            await made(client, name=name, metadata={"labels": {"l": label}})
        await client("DELETE", f"{MAPS}?labelSelector=l%3Dx")
        left = (await client("GET", f"{MAPS}?labelSelector=l")).json["items"]
        assert [one["metadata"]["name"] for one in left] == ["b"]


async def test_a_pod_without_time_is_shown_as_ended_before_it_goes() -> None:
    """Watchers learn of the end of every pod from its last state."""
    async with open_asgi() as client:
        old = await made(client, PODS, **pod(node=""))
        last = (await client("DELETE", f"{PODS}/a")).json["metadata"]
        assert (last["deletionGracePeriodSeconds"], last["uid"]) == (0, old["metadata"]["uid"])
        assert (await client("GET", f"{PODS}/a")).status == 404


async def test_a_pod_without_time_is_ended_and_removed_in_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between two transactions would leave a pod that is terminating and that nothing ends."""
    batches: list[list[bool]] = []

    def noted(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[StorageError | None]:
        batches.append([write.value is None for write in writes if write.key.endswith("/a")])
        return commit_writes(connection, writes)

    async with open_asgi(store=SQLiteStorage(tmp_path / "db")) as client:
        await made(client, PODS, **pod())
        monkeypatch.setattr(compaction, "commit_writes", noted)
        assert (await client("DELETE", f"{PODS}/a?gracePeriodSeconds=0")).status == 200
    assert [batch for batch in batches if batch] == [[False, True]]
    async with open_asgi(store=SQLiteStorage(tmp_path / "db")) as client:
        assert (await client("GET", f"{PODS}/a")).status == 404


async def test_a_time_beyond_what_go_can_hold_wraps_around() -> None:
    """``time.Duration`` counts nanoseconds in 64 bits."""
    async with open_asgi() as client:
        await made(client, PODS, **pod(seconds=30))
        marked = (await client("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 10**10})).json["metadata"]
        assert marked["deletionGracePeriodSeconds"] == 10**10
        assert marked["deletionTimestamp"] < "2100"


async def test_objects_of_a_collection_share_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []

    def counted(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[StorageError | None]:
        batches.append(len(writes))
        return commit_writes(connection, writes)

    async with open_asgi(store=SQLiteStorage(tmp_path / "db")) as client:
        for number in range(100):
            await made(client, name=f"m{number:03}")
        monkeypatch.setattr(compaction, "commit_writes", counted)
        answer = await client("DELETE", MAPS)
        assert answer.status == 200
        assert [item["metadata"]["name"] for item in answer.json["items"]] == [f"m{number:03}" for number in range(100)]
        assert (await client("GET", MAPS)).json["items"] == []
    assert sum(batches) == 100
    assert len(batches) < 20


async def test_a_collection_is_deleted_up_to_the_first_object_that_is_refused() -> None:
    async with open_asgi() as client:
        first, second, third = [await made(client, name=name) for name in ("a", "b", "c")]
        wanted = {"preconditions": {"uid": first["metadata"]["uid"]}}
        refused = await client("DELETE", MAPS, wanted)
        assert (refused.status, refused.json["reason"]) == (409, "Conflict")
        left = (await client("GET", MAPS)).json["items"]
        assert [item["metadata"]["uid"] for item in left] == [second["metadata"]["uid"], third["metadata"]["uid"]]
        again = await client("DELETE", MAPS, {"preconditions": {"uid": third["metadata"]["uid"]}})
        assert again.status == 409
        assert len((await client("GET", MAPS)).json["items"]) == 2


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (MAPS, "Status"),
        (JOBS.replace("/jobs", "/cronjobs"), "Status"),
        ("/api/v1/namespaces/default/serviceaccounts", "ServiceAccount"),
    ],
)
async def test_a_deletion_is_answered_with_the_object_or_a_status_by_its_kind(path: str, kind: str) -> None:
    """ReturnDeletedObject is set for few kinds (pkg/registry)."""
    job = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
    spec = {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}} if path.endswith("cronjobs") else {}
    async with open_asgi() as client:
        await made(client, path, **spec)
        assert (await client("DELETE", f"{path}/a")).json["kind"] == kind


async def test_a_deleted_collection_is_shown_as_it_was_before() -> None:
    async with open_asgi() as client:
        await made(client, PODS, **pod())
        answer = await client("DELETE", PODS)
        (shown,) = answer.json["items"]
        assert "deletionTimestamp" not in shown["metadata"]
        assert "deletionTimestamp" in (await client("GET", f"{PODS}/a")).json["metadata"]
