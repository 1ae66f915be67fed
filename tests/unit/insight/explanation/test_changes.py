"""Remedies name what has to be changed and created again, and change workloads rather than their pods."""

from __future__ import annotations

import json
import shlex
from typing import Any

from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import Remedy
from cathedra.insight.reading.dumps import read_dump
from tests.insight.building import Object, counted, device_class, gpus, node, pod, request, slice_of, template
from tests.unit.insight.explanation.test_freeing import stored, workload


def changes(*objects: Object) -> dict[str, Remedy]:
    return {change.kind: change for change in explain(read_dump([*objects]), "pod/p").changes}


def operations(command: str) -> Any:
    words = shlex.split(command)
    return json.loads(words[words.index("-p") + 1])


def test_the_node_selector_of_a_deployments_pod_is_dropped_in_the_deployment() -> None:
    selector = {"disk": "ssd"}
    top = stored(workload("Deployment", "web", 1, pod(nodeSelector=selector)), "d")
    owner = stored(workload("ReplicaSet", "web-1", 1, pod(nodeSelector=selector)), "rs", top)
    change = changes(node(), top, owner, stored(pod(nodeSelector=selector), "pod-p", owner))["drop node selector"]
    assert change.text == "drop disk=ssd from the nodeSelector of deployment default/web"
    (command,) = change.commands
    assert command.startswith("kubectl -n default patch deployment web --type=json -p ")
    assert operations(command) == [{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]


def test_a_pod_of_its_own_is_replaced_for_another_node_selector() -> None:
    change = changes(node(), stored(pod(nodeSelector={"disk": "ssd"}), "pod-p"))["drop node selector"]
    assert change.text.endswith("of pod default/p; then delete pod default/p and create it again")
    (command,) = change.commands
    assert command.startswith("kubectl -n default get pod p -o json | kubectl patch --local -f - ")
    assert command.endswith(" -o json | kubectl replace --force -f -")


def test_a_toleration_is_added_to_the_pod_in_place() -> None:
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    change = changes(node(taints=[taint]), stored(pod(), "pod-p"))["tolerate node taint"]
    (command,) = change.commands
    assert command.startswith("kubectl -n default patch pod p --type=json -p ")
    added = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
    assert operations(command)[-1]["value"] in (added, [added])


def test_a_lower_request_of_a_stateful_set_leaves_what_the_template_does_not_name() -> None:
    asked = pod(cpu="16")
    asked["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "16", "memory": "1Gi"}}
    top = stored(workload("StatefulSet", "db", 1, asked, serviceName="db"), "s")
    waiting = stored(pod(cpu="16"), "pod-p", top)
    waiting["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "16", "memory": "1Gi"},
        "requests": {"cpu": "16", "memory": "1Gi"},
    }
    patch, delete = changes(node(), top, waiting)["lower request"].commands
    path = "/spec/template/spec/containers/0/resources/requests"
    assert operations(patch) == [{"op": "add", "path": path, "value": {"cpu": "8"}}]
    assert delete == "kubectl -n default delete pod p"


def test_an_extended_resource_has_its_request_and_limit_lowered_together() -> None:
    both = {name: {"example.com/gpu": "9"} for name in ("limits", "requests")}
    made = node()
    made["status"]["allocatable"]["example.com/gpu"] = "4"
    waiting = pod()
    waiting["spec"]["containers"][0]["resources"] = both
    change = changes(made, waiting)["lower request"]
    (changed,) = (one for one in change.set if type(one).__name__ == "Pod")
    resources = changed.spec.containers[0].resources  # type: ignore[attr-defined]  # it is a pod
    assert resources.limits == resources.requests
    assert str(resources.limits["example.com/gpu"]) == "4"


def test_an_extended_resource_from_devices_is_lowered_in_the_container_and_not_in_the_schedulers_claim() -> None:
    asked = pod()
    asked["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "3"}}
    waiting = pod()
    waiting["spec"]["containers"][0]["resources"] = {name: {"example.com/gpu": "3"} for name in ("limits", "requests")}
    named = device_class()
    named["spec"]["extendedResourceName"] = "example.com/gpu"
    top = stored(workload("Deployment", "web", 1, asked), "d")
    owner = stored(workload("ReplicaSet", "web-1", 1, asked), "rs", top)
    found = changes(node(), named, gpus(2), top, owner, stored(waiting, "pod-p", owner))
    assert "lower count" not in found
    change = found["lower request"]
    assert change.text == "lower the example.com/gpu request of container 'main' of deployment default/web from 3 to 2"
    assert change.fits_on == ("n1",)
    assert {type(one).__name__ for one in change.set} == {"Pod"}
    (command,) = change.commands
    path = "/spec/template/spec/containers/0/resources/limits/example.com~1gpu"
    assert operations(command) == [{"op": "replace", "path": path, "value": "2"}]


def test_objects_of_manifests_are_changed_before_they_are_applied_and_have_no_commands() -> None:
    found = changes(node(), device_class(), gpus(2), template("t", request(count=3)), pod("template:t"))
    assert found["lower count"].commands == ()


def test_a_cause_names_how_many_devices_can_be_had_together() -> None:
    """Eight partitions of which one is allocated: seven are free, and counters allow six of them."""
    partitions = [counted(f"p{place}", slots=1) for place in range(8)]
    sets = [{"name": "gpu", "counters": {"slots": {"value": "6"}}}]
    slices = [
        slice_of(*partitions, count=2, name="a"),
        slice_of(count=2, name="b", sharedCounters=sets),
    ]
    found = explain(
        read_dump([node(), device_class(), *slices, template("t", request(count=8)), pod("template:t")]), "pod/p"
    )
    assert found.causes[0].text.endswith("at most 6 can be had together")
    assert found.changes[0].text.startswith("lower the count of request 'gpu' of template default/t from 8 to 6")


def test_a_class_of_another_sort_is_not_proposed_for_a_missing_one() -> None:
    nics = slice_of(*({"name": f"nic-{place}"} for place in range(2)), driver="nic.example.com")
    objects = [node(), device_class("nic", 'device.driver == "nic.example.com"'), nics]
    waiting = [template("t", request(cls="gpu")), pod("template:t")]
    assert "use another class" not in changes(*objects, *waiting)
