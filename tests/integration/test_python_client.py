"""The official Python client, unchanged: typed and dynamic, watches that go on after the server has been killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.integration.conftest import RunningCluster

CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "any-gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "any-gpu"}}]}}
CLAIM = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mine"}, "spec": SPEC}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {"spec": SPEC},
}
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "by-hand"},
    "spec": {
        "driver": "hand.example.com",
        "allNodes": True,
        "pool": {"name": "by-hand", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d0", "attributes": {"model": {"string": "a"}}}],
    },
}


@pytest.fixture(scope="module")
def cluster(start_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    """A cluster with one node."""
    return start_cluster("--nodes=1", "--gpus=2")


@pytest.fixture
def api(cluster: RunningCluster) -> Iterator[client.ApiClient]:
    """Return a client, created as in its documentation."""
    with config.new_client_from_config(config_file=str(cluster.kubeconfig)) as made:
        yield made


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "host", "command": ["true"]}
    spec = {"restartPolicy": "Never", "containers": [container]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("manifest", [CLASS, CLAIM, TEMPLATE, SLICE], ids=lambda m: m["kind"])
def test_the_four_kinds_are_created_listed_patched_watched_and_deleted(
    api: client.ApiClient, manifest: dict[str, Any]
) -> None:
    kind = dynamic.DynamicClient(api).resources.get(api_version="resource.k8s.io/v1", kind=manifest["kind"])
    place = {"namespace": "default"} if kind.namespaced else {}
    name = manifest["metadata"]["name"]
    created = kind.create(body=manifest, **place)
    assert created.metadata.uid
    assert kind.get(name=name, **place).spec == created.spec
    listed = kind.get(**place)
    assert name in [item.metadata.name for item in listed.items]

    patch = {"metadata": {"labels": {"seen": "yes"}}}
    merged = kind.patch(name=name, body=patch, content_type="application/merge-patch+json", **place)
    assert merged.metadata.labels.seen == "yes"
    with pytest.raises(ApiException) as refused:
        kind.create(body=manifest, **place)
    assert (refused.value.status, json.loads(refused.value.body)["reason"]) == (409, "AlreadyExists")

    kind.delete(name=name, **place)
    since = listed.metadata.resourceVersion
    seen = [event["type"] for event in _until_deleted(kind, name, since, place)]
    assert seen == ["MODIFIED", "DELETED"]


def _until_deleted(kind: Any, name: str, since: str, place: dict[str, str]) -> Iterator[dict[str, Any]]:
    for event in kind.watch(resource_version=since, timeout=150, name=name, **place):
        yield event
        if event["type"] == "DELETED":
            return


def test_the_typed_api_runs_a_pod_and_sees_its_claim(api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    resources = client.ResourceV1Api(api)
    resources.create_device_class(CLASS)
    resources.create_namespaced_resource_claim_template("default", TEMPLATE)
    container = {"name": "main", "image": "host", "command": ["true"], "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    core.create_namespaced_pod("default", pod("typed", containers=[container], resourceClaims=claims))
    phases = []
    for event in watch.Watch().stream(
        core.list_namespaced_pod, "default", field_selector="metadata.name=typed", timeout_seconds=120
    ):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Succeeded":
            break
    assert phases[0] == "Pending"
    assert phases[-1] == "Succeeded"
    created = core.read_namespaced_pod("typed", "default")
    assert created.status.resource_claim_statuses[0].name == "gpu"
    core.patch_namespaced_pod("typed", "default", {"metadata": {"labels": {"done": "yes"}}})
    assert len(core.list_namespaced_pod("default", label_selector="done=yes").items) == 1
    core.delete_namespaced_pod("typed", "default")
    resources.delete_namespaced_resource_claim_template("one-gpu", "default")
    resources.delete_device_class("any-gpu")


def test_an_invalid_object_is_refused_with_its_causes(api: client.ApiClient) -> None:
    wrong = {**CLASS, "spec": {"selectors": [{"cel": {"expression": "device.driver =="}}]}}
    with pytest.raises(ApiException) as refused:
        client.ResourceV1Api(api).create_device_class(wrong)
    status = json.loads(refused.value.body)
    assert (refused.value.status, status["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.selectors[0].cel.expression"]


def test_a_watch_goes_on_after_the_server_was_killed_and_started_again(
    cluster: RunningCluster, api: client.ApiClient
) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map("default", {"metadata": {"name": "before"}})
    since = core.list_namespaced_config_map("default").metadata.resource_version
    seen: list[str] = []
    follower = Thread(target=_follow_config_maps, args=(core, since, seen), daemon=True)
    follower.start()

    holder = cluster.data.holder()
    assert holder is not None
    core.create_namespaced_config_map("default", {"metadata": {"name": "acknowledged"}})
    os.kill(holder, signal.SIGKILL)
    while cluster.data.holder() is not None:
        time.sleep(0.01)
    cluster.up()
    core.create_namespaced_config_map("default", {"metadata": {"name": "last"}})
    follower.join(30)
    assert seen == ["acknowledged", "last"]


def _follow_config_maps(core: client.CoreV1Api, since: str, seen: list[str]) -> None:
    """Watch as an informer does: go on from the last version seen, whatever happens to the connection."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            stream = watch.Watch().stream(
                core.list_namespaced_config_map, "default", resource_version=since, timeout_seconds=10
            )
            for event in stream:
                metadata = event["object"].metadata
                since = metadata.resource_version
                seen.append(metadata.name)
                if metadata.name == "last":
                    return
        except (HTTPError, ConnectionError):
            time.sleep(0.1)
