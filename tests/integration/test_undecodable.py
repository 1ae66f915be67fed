"""Scheduler, controller manager and node agent beside objects that cannot be decoded.

One of every kind is there before a part starts, and another comes while it watches, with something that is no object
at all. The part does its work beside them, and gives out no device that such a claim holds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cathedra.releases import NEWEST
from tests.goapiserver import GoAPIServer, go_api_server
from tests.goapiserver.objects import Refused, served_resources
from tests.integration.test_beside_go import (
    CLAIM,
    CLASS,
    DEVICES,
    NODE,
    ODD_POD,
    SLICE,
    TEMPLATE,
    kubeconfig,
    node_of,
    pod_with,
    until,
)
from tests.integration.test_beside_kubernetes import fetched
from tests.integration.test_parts_alone import Parts
from tests.ports import free_port

FAULT = "cannot be decoded: Expected `int`, got `str` at metadata.generation"


def faulty(value: dict[str, Any]) -> dict[str, Any]:
    """The object with a generation that is no number."""
    metadata = {"uid": f"uid-{value['metadata']['name']}", **value["metadata"], "generation": "seventh"}
    return {**value, "metadata": metadata}


def put_faulty(server: GoAPIServer, name: str) -> None:
    """Store an object of every kind that cannot be decoded, and something that is no object in the place of a pod."""
    for resource in served_resources(NEWEST).values():
        metadata = {"name": name, **({"namespace": "default"} if resource.namespaced else {})}
        value = {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind, "metadata": metadata}
        if resource.gvk.kind != "ResourceSlice":  # one of which nothing can be read withholds every pool
            server.put_verbatim(faulty(value))
    server.store.put_verbatim(server.resource("v1", "Pod"), b"[1]", name=f"{name}-junk", namespace="default")


def counted(port: int, resource: str, kind: str) -> float:
    """The figure that the part's metrics give for a kind."""
    status, text = fetched(port, "/metrics", "tests")
    assert status == 200, text
    series = f'cathedra_undecodable_objects_total{{kind="{kind}",resource="{resource}"}} '
    return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(series)), 0.0)


@pytest.fixture
def server() -> Iterator[GoAPIServer]:
    with go_api_server(tls=True) as running:
        put_faulty(running, "before")
        yield running


@pytest.fixture
def parts(server: GoAPIServer) -> Iterator[Parts]:
    with tempfile.TemporaryDirectory(prefix="undecodable-") as name, ExitStack() as stack:
        yield Parts(Path(name), stack)


def test_the_scheduler_goes_on_and_gives_out_nothing_that_an_undecodable_claim_holds(
    server: GoAPIServer, parts: Parts
) -> None:
    devices = {**SLICE["spec"], "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}  # type: ignore[dict-item]
    held = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    metadata = {"name": "holder", "namespace": "default"}
    status = {"allocation": {"devices": {"results": [held]}}}
    server.put(NODE, CLASS, {**SLICE, "spec": devices}, CLAIM, pod_with("user", {"resourceClaimName": "gpu"}))
    server.put_verbatim(faulty({**CLAIM, "metadata": metadata, "status": status}))
    port = free_port()
    parts.start("scheduler", kubeconfig(server, parts), f"--secure-port={port}")
    until(parts, "scheduler", lambda: node_of(server, "user"))
    claim = server.get(DEVICES, "ResourceClaim", "gpu", "default")
    assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-1"
    put_faulty(server, "after")
    server.put({**ODD_POD, "metadata": {"name": "later", "namespace": "default"}})
    until(parts, "scheduler", lambda: node_of(server, "later"))
    for name in ("before", "after"):
        assert f"Pod default/{name} {FAULT}" in parts.log("scheduler")
    assert counted(port, "pods", "Pod") >= 2
    assert parts.stop("scheduler") == 0


def test_the_controllers_go_on(server: GoAPIServer, parts: Parts) -> None:
    server.put(NODE, CLASS, TEMPLATE)
    port = free_port()
    parts.start("controller-manager", kubeconfig(server, parts), f"--secure-port={port}")

    def has_account(namespace: str) -> bool:
        try:
            return bool(server.get("v1", "ServiceAccount", "default", namespace))
        except Refused:
            return False

    for name in ("first", "second"):
        server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}})
        until(parts, "controller-manager", lambda name=name: has_account(name))  # type: ignore[misc]
        put_faulty(server, "after")
    server.put(pod_with("user", {"resourceClaimTemplateName": "gpu"}))
    until(
        parts,
        "controller-manager",
        lambda: any(one["metadata"]["name"].startswith("user-gpu-") for one in server.find(DEVICES, "ResourceClaim")),
    )
    for kind in ("CSINode after", "Job default/before"):
        assert f"{kind} {FAULT}" in parts.log("controller-manager")
    assert counted(port, "jobs", "Job") >= 2
    assert parts.stop("controller-manager") == 0


def test_a_node_goes_on_and_so_does_a_pod_that_cannot_be_decoded_any_more(server: GoAPIServer, parts: Parts) -> None:
    def on_node(name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "default"}
        return {**ODD_POD, "metadata": metadata, "spec": {**ODD_POD["spec"], "nodeName": "n1"}}

    def phase(name: str) -> str:
        return str(server.get("v1", "Pod", name, "default").get("status", {}).get("phase", ""))

    server.put_verbatim(faulty(on_node("early")))
    server.put(on_node("first"))
    root = f"--root-dir={parts.folder / 'n'}"
    port = free_port()
    options = ("--node-name=n1", root, "--runtime=process", f"--port={port}")
    parts.start("node", kubeconfig(server, parts), *options)
    until(parts, "node", lambda: phase("first") == "Running")
    server.put_verbatim(faulty(server.get("v1", "Pod", "first", "default")))
    server.put_verbatim(faulty(on_node("late")))
    server.put(on_node("second"))
    until(parts, "node", lambda: phase("second") == "Running")
    for name in ("early", "late", "first"):
        assert f"Pod default/{name} {FAULT}" in parts.log("node")
    assert counted(port, "pods", "Pod") >= 3
    assert phase("first") == "Running"
    assert parts.stop("node") == 0
