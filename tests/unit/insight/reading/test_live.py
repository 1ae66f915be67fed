"""A running cluster: the newest version that both sides know, page by page, and what may not be read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from cathedra.allocation import InvalidInput
from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.status import Status, StatusError
from cathedra.client.http import HTTPTransport
from cathedra.insight.reading.features import RequestedRelease
from cathedra.insight.reading.live import read_client, read_features, read_live
from cathedra.insight.reading.state import READ_KINDS, ClusterState, reader_role
from cathedra.releases import NEWEST
from tests.goapiserver import go_api_server
from tests.unit.inprocess import API, with_api
from tests.unit.insight.reading.test_dumps import slice_of


def refusal(code: int, reason: str) -> StatusError:
    return StatusError(Status(status="Failure", code=code, reason=reason, message=reason))


GATES = b"""# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DynamicResourceAllocation",stage="BETA"} 1
kubernetes_feature_enabled{name="DRAPrioritizedList",stage="ALPHA"} 1
kubernetes_feature_enabled{name="NotKnownHere",stage=""} 1
kubernetes_feature_enabled{name="DRAAdminAccess",stage="ALPHA"} 0
"""


class Server:
    """Answers GET requests from a table; what is not in it is not found, or an empty list."""

    def __init__(self, answers: Mapping[str, Any], *, release: str = "v1.33.2", resource: str = "v1beta1") -> None:
        self.answers: dict[str, Any] = {"/version": {"gitVersion": release}, "/metrics": GATES, **answers}
        self.resource = resource
        self.asked: list[tuple[str, str]] = []

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        token = (query or {}).get("continue", "")
        self.asked.append((path, token))
        answer = self.answers.get(path + token)
        if answer is None:
            answer = self.discovery(path)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)

    def discovery(self, path: str) -> Any:
        group, _, version = path.removeprefix("/apis/").partition("/")
        if "/" in version or path.startswith("/api/"):
            return {"items": []}
        if group == "resource.k8s.io" and version == self.resource:
            plurals = ("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates")
            return {"resources": [{"name": plural} for plural in plurals]}
        return refusal(404, "NotFound")


def read(server: Server, **more: Any) -> ClusterState:
    return asyncio.run(read_live(server, source="test", now=0.0, **more))


SLICES = "/apis/resource.k8s.io/v1beta1/resourceslices"
PODS = "/api/v1/pods"


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": []}}


def test_an_older_server_is_read_in_the_version_that_it_has() -> None:
    item = {key: value for key, value in slice_of("v1beta1").items() if key not in ("kind", "apiVersion")}
    state = read(Server({SLICES: {"items": [item]}}))
    (found,) = state.all(ResourceSlice)
    assert found.spec.devices[0].attributes["model"].string == "a100"
    assert state.gates.release == "1.33"


def test_a_server_newer_than_any_known_release_is_taken_for_the_newest() -> None:
    assert read(Server({}, release="v1.99.0-alpha")).gates.release == NEWEST


def test_kinds_that_were_listed_are_known_although_there_are_none() -> None:
    state = read(Server({}))
    assert state.is_known(ResourceClaim)
    assert state.is_known(DeviceTaintRule)
    assert state.notes == ()


def test_lists_are_read_page_by_page() -> None:
    first = {"items": [pod("a")], "metadata": {"continue": "x"}}
    state = read(Server({PODS: first, PODS + "x": {"items": [pod("b")]}}))
    assert [one.metadata.name for one in state.pods] == ["a", "b"]


def test_a_list_that_expired_on_the_way_is_read_again_in_one_piece() -> None:
    answers = iter([{"items": [pod("a")], "metadata": {"continue": "x"}}, {"items": [pod("a"), pod("b")]}])

    class Expiring(Server):
        async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
            if path == PODS and "continue" not in (query or {}):
                return msgspec.json.encode(next(answers))
            return await super().get_raw(path, query)

    state = read(Expiring({PODS + "x": refusal(410, "Expired")}))
    assert [one.metadata.name for one in state.pods] == ["a", "b"]


def test_a_missing_right_is_said_with_what_is_then_not_known() -> None:
    state = read(Server({PODS: refusal(403, "Forbidden")}))
    assert not state.is_known(Pod)
    (note,) = state.notes
    assert (note.resource, note.problem) == ("pods", "forbidden")
    assert note.text.startswith("you may not read pods")
    assert note.text.endswith("which pods use claims, and how much CPU and memory is in use, is not known")


def test_who_may_read_one_namespace_gets_that_one() -> None:
    server = Server({PODS: refusal(403, "Forbidden"), "/api/v1/namespaces/team/pods": {"items": [pod("a")]}})
    state = read(server, namespace="team")
    assert [one.metadata.name for one in state.pods] == ["a"]
    assert [note.problem for note in state.notes] == ["partial"]


def test_a_server_without_dynamic_resource_allocation_is_said() -> None:
    state = read(Server({}, resource="none"))
    (note,) = (note for note in state.notes if note.problem == "not served")
    assert "serves no Dynamic Resource Allocation (resource.k8s.io): it has no devices" in note.text
    assert state.without_devices == note.text


@pytest.mark.parametrize("answer", [b"<html>", b"[]"])
def test_a_server_that_is_no_kubernetes_is_refused(answer: bytes) -> None:
    with pytest.raises(InvalidInput):
        read(Server({"/version": answer}))


def test_a_server_that_does_not_know_who_asks_is_an_error() -> None:
    with pytest.raises(StatusError):
        read(Server({"/version": refusal(401, "Unauthorized")}))


def test_a_client_in_the_process_reads_the_same() -> None:
    async def body(api: API) -> ClusterState:
        return await read_client(api.client, source="in process")

    state = with_api(body)
    assert state.is_known(Pod)
    assert state.nodes == ()


def test_the_role_lists_what_is_read_and_gets_the_feature_gates() -> None:
    role = reader_role()
    named = {(group, plural) for rule in role.rules for group in rule.api_groups for plural in rule.resources}
    assert named == {(kind.ref.group, kind.plural) for kind in READ_KINDS}
    assert {verb for rule in role.rules for verb in rule.verbs if rule.resources} == {"list", "watch"}
    assert [(rule.non_resource_urls, rule.verbs) for rule in role.rules if not rule.resources] == [
        (("/metrics",), ("get",))
    ]


def test_gates_are_those_that_the_server_reports() -> None:
    state = read(Server({}))
    assert state.gates["DRAPrioritizedList"]
    assert not state.gates["DRAAdminAccess"]
    assert state.notes == ()


def test_the_users_gates_win_over_those_that_the_server_reports() -> None:
    assert not read(Server({}), feature_gates={"DRAPrioritizedList": False}).gates["DRAPrioritizedList"]


def test_gates_that_cannot_be_read_are_assumed_and_named() -> None:
    state = read(Server({"/metrics": refusal(403, "Forbidden")}))
    assert state.gates["DynamicResourceAllocation"]
    assert not state.gates["DRAPrioritizedList"]
    assert [note.text for note in state.notes] == [
        "assumed: the default feature gates of Kubernetes 1.33 with DynamicResourceAllocation on, for the server "
        "reports none (/metrics: Forbidden); see --feature-gates"
    ]


def test_nothing_is_assumed_if_the_user_names_the_gates() -> None:
    server = Server({"/metrics": refusal(403, "Forbidden")})
    state = read(server, feature_gates={"DRAPrioritizedList": True})
    assert state.gates["DRAPrioritizedList"]
    assert state.gates["DynamicResourceAllocation"]
    assert state.notes == ()


def test_the_versions_that_the_server_has_are_known() -> None:
    served = read(Server({})).served
    assert served["resource.k8s.io/v1beta1"]
    assert not served["resource.k8s.io/v1"]


def test_a_cluster_is_read_as_another_release_would_have_it() -> None:
    state = read(Server({}), release="1.36")
    assert state.gates["DRAAdminAccess"]
    assert state.served == {}


async def test_a_server_in_go_is_read_with_its_nulls() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"volumes": [{"name": "v", "projected": {}}], "containers": [{"name": "c", "image": "i"}]},
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "odd", "namespace": "default"},
    }
    with go_api_server() as server:
        server.put(pod, claim)
        async with await HTTPTransport.open(server.target) as transport:
            state = await read_live(transport, source="test", now=0.0)
    (read_pod,), (read_claim,) = state.all(Pod), state.all(ResourceClaim)
    assert read_pod.spec.volumes[0].projected is not None
    assert not read_pod.spec.volumes[0].projected.sources
    assert not read_claim.spec.devices.requests


def test_one_item_that_cannot_be_decoded_leaves_the_others_readable() -> None:
    bad = {**slice_of("v1beta1"), "metadata": {"name": "bad"}, "spec": {"driver": 3, "pool": {"name": "n1"}}}
    state = read(Server({SLICES: {"items": [slice_of("v1beta1"), None, bad]}}))
    assert [one.metadata.name for one in state.all(ResourceSlice)] == ["s1"]
    assert [what.name for what in state.undecodable] == ["bad"]
    assert [note.resource for note in state.notes if note.problem == "undecodable"] == ["resourceslices/bad"]
    assert state.cluster.inventory.snapshot().withheld.keys() == {("gpu.example.com", "n1")}


def test_an_item_that_is_nested_too_deeply_leaves_the_others_readable() -> None:
    deep = b'{"metadata": {"name": "deep"}, "spec": %s}' % (b"[" * 3000 + b"]" * 3000)
    body = b'{"items": [%s, %s]}' % (msgspec.json.encode(slice_of("v1beta1")), deep)
    state = read(Server({SLICES: body}))
    assert [one.metadata.name for one in state.all(ResourceSlice)] == ["s1"]
    assert [what.name for what in state.undecodable] == ["deep"]


async def test_features_of_a_server_are_found_out_without_its_objects() -> None:
    server = Server({})
    found = await read_features(cast(Any, Reader(server)), RequestedRelease())
    assert (found.gates.release, found.gates["DRAPrioritizedList"], found.notes) == ("1.33", True, ())
    assert not any(path.endswith("/pods") for path, _ in server.asked)
    assert "devicetaintrules" not in {kind.plural for kind in found.kinds}
    assert found.served["resource.k8s.io/v1beta1"]


async def test_features_that_cannot_be_read_are_assumed_or_given() -> None:
    server = Server({"/metrics": refusal(403, "Forbidden")})
    (note,) = (await read_features(cast(Any, Reader(server)), RequestedRelease())).notes
    assert note.text.startswith("assumed: the default feature gates of Kubernetes 1.33")
    given = RequestedRelease("1.36", {"DRAConsumableCapacity": True})
    assert (await read_features(cast(Any, Reader(server)), given)).gates["DRAConsumableCapacity"]


async def test_a_connection_that_reads_resources_only_has_the_release_that_is_given() -> None:
    server = Server({"/version": refusal(404, "NotFound")})
    found = await read_features(cast(Any, Reader(server)), RequestedRelease("1.36"))
    assert found.gates.release == "1.36"
    assert "resourceslices" in {kind.plural for kind in found.kinds}


class Reader:
    """A client that reads paths."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def read(self, path: str) -> bytes:
        return await self._server.get_raw(path)
