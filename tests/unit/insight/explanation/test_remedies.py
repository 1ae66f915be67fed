"""Remedies that can be carried out, and nodes like one that is there."""

from __future__ import annotations

from cathedra.api.resource import ResourceSlice
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.remedies import node_like
from cathedra.insight.reading.dumps import read_dump
from tests.insight.building import Object, claim, device_class, gpus, node, pod, request, template


def test_a_node_like_another_has_its_labels_room_and_devices_under_its_own_name() -> None:
    state = read_dump([node(labels={"zone": "z1"}), gpus(2)])
    made, (piece,) = node_like(state.nodes[0], state.all(ResourceSlice))
    assert made.metadata.name == "n1-new"
    assert made.metadata.labels == {"kubernetes.io/hostname": "n1-new", "zone": "z1"}
    assert made.status.allocatable == state.nodes[0].status.allocatable
    assert (piece.spec.node_name, piece.spec.pool.name) == ("n1-new", "n1-new")
    assert piece.spec.devices == state.all(ResourceSlice)[0].spec.devices


def stored(made: Object) -> Object:
    """The object as a server has it."""
    return {**made, "metadata": {**made["metadata"], "resourceVersion": "7"}}


def texts(*objects: Object, subject: str = "pod/p") -> list[str]:
    state = read_dump([node(), device_class(), gpus(2), *objects])
    return [change.text for change in explain(state, subject).changes]


def test_a_generated_claim_is_changed_in_its_template_and_its_pod_is_created_again() -> None:
    waiting = stored(pod("template:t"))
    waiting["metadata"]["uid"] = "pu"
    entry = waiting["spec"]["resourceClaims"][0]["name"]
    waiting["status"] = {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": "p-x7k2p"}]}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu", "controller": True}
    generated = stored(claim("p-x7k2p", request("gpu", "gpu", 3)))
    generated["metadata"]["ownerReferences"] = [owner]
    generated["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": entry}
    made = stored(template("t", request("gpu", "gpu", 3)))
    state = read_dump([node(), device_class(), gpus(2), waiting, generated, made])
    change = explain(state, "pod/p").changes[0]
    assert change.text == (
        "lower the count of request 'gpu' of template default/t from 3 to 2; then delete template default/t and pod "
        "default/p and create them again"
    )
    assert change.commands == (
        "kubectl -n default get resourceclaimtemplates.v1.resource.k8s.io t -o json | kubectl patch --local -f - "
        """--type=json -p '[{"op":"replace","path":"/spec/spec/devices/requests/0/exactly/count","value":2}]' """
        "-o json | kubectl replace --force -f -",
        "kubectl -n default get pod p -o json | kubectl replace --force -f -",
    )


def test_a_named_claim_is_created_again_because_its_spec_is_immutable() -> None:
    found = texts(stored(pod("claim:c")), stored(claim("c", request("gpu", "gpu", 3))))
    assert found[0] == (
        "lower the count of request 'gpu' of claim default/c from 3 to 2; then delete claim default/c and create it "
        "again"
    )


def test_manifests_are_changed_before_they_are_applied() -> None:
    assert texts(pod("claim:c"), claim("c", request("gpu", "gpu", 3)))[0] == (
        "lower the count of request 'gpu' of claim default/c from 3 to 2"
    )


def test_a_device_class_that_exists_is_never_changed() -> None:
    state = read_dump([node(), device_class("gpu", "false"), gpus(2), claim("c", request("gpu", "gpu", 1))])
    assert not any("class" in change.text for change in explain(state, "claim/c").changes if change.kind != "add node")
