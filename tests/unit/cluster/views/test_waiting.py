"""The reason why a pod waits, by the claims, the allocator, the scheduler or the node."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Event, Node, Pod
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import from_dict
from cathedra.cluster.views.waiting import Surroundings, why_waiting
from cathedra.releases import FeatureGates

REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


def named(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}, **more}


def claim(name: str = "c", namespace: str = "default", held: str = "", **exactly: Any) -> ResourceClaim:
    """A claim for one device of class gpu, or one that holds a device."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]}}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": held}
    status = {"allocation": {"devices": {"results": [result]}}} if held else {}
    return from_dict(ResourceClaim, named(name, namespace, spec=spec, status=status))


def devices(*entries: dict[str, Any], count: int = 1, **spec: Any) -> ResourceSlice:
    """A slice of node n1."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": count}
    body = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": list(entries), **spec}
    return from_dict(ResourceSlice, {"metadata": {"name": f"s{len(entries)}"}, "spec": body})


def device_class(*drivers: str) -> DeviceClass:
    """Class gpu: the devices of these drivers."""
    expression = " || ".join(f'device.driver == "{driver}"' for driver in drivers)
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return from_dict(DeviceClass, {"metadata": {"name": "gpu"}, "spec": spec})


def around(**more: Any) -> Surroundings:
    """A node with one device."""
    known: dict[str, Any] = {
        "nodes": (from_dict(Node, {"metadata": {"name": "n1"}}),),
        "slices": (devices({"name": "a"}),),
        "classes": (device_class("gpu.example.com"),),
        "claims": (claim(),),
        "templates": (),
        "rules": (),
        "warnings": (),
        "gates": FeatureGates.for_release(),
    }
    return Surroundings(**known | more)


def pod(entry: dict[str, str] | None = None, *, spec: dict[str, Any] | None = None, **status: Any) -> Pod:
    """A pending pod that uses claim c."""
    entries = [{"name": "e", **(entry or {"resourceClaimName": "c"})}]
    body = {"containers": [], "resourceClaims": entries, **(spec or {})}
    return from_dict(Pod, named("p", spec=body, status={"phase": "Pending", **status}))


def why(one: Pod, **more: Any) -> str:
    surroundings = around(**more)
    return why_waiting(one, surroundings, surroundings.allocator_view())


def template(namespace: str) -> ResourceClaimTemplate:
    return from_dict(ResourceClaimTemplate, named("t", namespace, spec={"spec": {"devices": {"requests": [REQUEST]}}}))


def event(message: str) -> Event:
    about = {"kind": "Pod", "name": "p", "namespace": "default", "uid": "uid-p"}
    return from_dict(Event, named("e", involvedObject=about, reason="FailedPrepare", message=message, type="Warning"))


def crashing(**terminated: Any) -> dict[str, Any]:
    """The status of container c between two runs."""
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 20s"}
    return {"name": "c", "state": {"waiting": waiting}, "lastState": {"terminated": terminated}}


TAINT = {"key": "broken", "effect": "NoSchedule"}
COUNTERS = [{"name": "gpu", "counters": {"slices": {"value": "4"}}}]


def partition(name: str, amount: str) -> dict[str, Any]:
    uses = [{"counterSet": "gpu", "counters": {"slices": {"value": amount}}}]
    return {"name": name, "consumesCounters": uses}


@pytest.mark.parametrize(
    ("one", "more", "said"),
    [
        (pod({"resourceClaimName": "x"}), {}, "claim 'x' does not exist in namespace 'default'"),
        (
            pod(),
            {"claims": (claim(namespace="team"),)},
            "claim 'c' does not exist in namespace 'default'; there is one in team, but a pod uses only those of its",
        ),
        (pod({"resourceClaimTemplateName": "t"}), {}, "template 't' does not exist in namespace 'default'"),
        (pod({"resourceClaimTemplateName": "t"}), {"templates": (template("a"),)}, "there is one in a"),
        (pod(), {"classes": ()}, "device class 'gpu' of claim 'c' does not exist; known: none"),
        (
            pod(),
            {"classes": (device_class("x.example.com"),)},
            "no devices of driver 'x.example.com' (class 'gpu') are",
        ),
        (
            pod(),
            {"claims": (claim(selectors=[{"cel": {"expression": "'x.example.com' == device.driver"}}]),)},
            "no devices of driver 'x.example.com' (claim 'c') are published; only gpu.example.com has",
        ),
        (pod(), {"classes": (device_class("x.example.com", "gpu.example.com"),)}, "the scheduler has not tried it yet"),
        (
            pod(),
            {"slices": ()},
            "no devices of driver 'gpu.example.com' (class 'gpu') are published; no driver has any",
        ),
        (
            pod(),
            {"claims": (claim(), claim("other", held="a"))},
            "request 'r' needs 1 device: 0 of 1 matching devices are free, the others are held by default/other",
        ),
        (
            pod(),
            {"claims": (claim(selectors=[{"cel": {"expression": "false"}}]),)},
            "request 'r' needs 1 device: 0 of 1 devices match its selectors",
        ),
        (
            pod(),
            {"slices": (devices({"name": "a", "taints": [TAINT]}),)},
            "0 of 1 free devices have no untolerated taint",
        ),
        (
            pod(),
            {
                "slices": (
                    devices(partition("a", "4"), partition("b", "2"), count=2),
                    devices(count=2, sharedCounters=COUNTERS),
                ),
                "claims": (claim(), claim("other", held="a")),
            },
            "request 'r' needs 1 device: 1 is unallocated, but none is usable; default/other has consumed its counters",
        ),
        (pod(spec={"schedulingGates": [{"name": "later"}]}), {}, "waits for its scheduling gates later"),
        (pod(), {}, "the scheduler has not tried it yet"),
        (
            pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: too few cpu"}]),
            {},
            "0/1 nodes: too few cpu",
        ),
        (
            pod(spec={"nodeName": "n1"}),
            {"warnings": (event("no plugin"),)},
            "claim 'c' is not allocated: only the scheduler allocates claims, and it ignores a pod that is created",
        ),
        (
            pod(spec={"nodeName": "n1"}),
            {"warnings": (event("no plugin"),), "claims": (claim(held="a"),)},
            "FailedPrepare: no plugin",
        ),
        (
            pod(phase="Running", containerStatuses=[crashing(exitCode=128, message="no such\nprogram")]),
            {},
            "container c: CrashLoopBackOff: no such program",
        ),
        (
            pod(phase="Running", containerStatuses=[crashing(exitCode=3)]),
            {},
            "container c: CrashLoopBackOff: it ended with exit code 3",
        ),
        (pod(spec={"nodeName": "n1"}), {"claims": (claim(held="a"),)}, "its node prepares it"),
    ],
)
def test_the_cause_is_one_line(one: Pod, more: dict[str, Any], said: str) -> None:
    line = why(one, **more)
    assert said in line
    assert "\n" not in line


def test_a_pod_that_runs_waits_for_nothing() -> None:
    assert why(pod(phase="Running"), claims=()) == ""


def test_claims_that_drivers_allocate_are_explained_by_the_scheduler() -> None:
    """Until 1.30 an entry has ``source``; what drivers have is theirs to know."""
    message = "0/1 nodes are available: 1 waiting for resource driver."
    refused = {"type": "PodScheduled", "status": "False", "message": message}
    waiting = pod({"source": {"resourceClaimTemplateName": "t"}}, conditions=[refused])  # type: ignore[dict-item]
    assert why(waiting) == message


def test_the_allocator_is_asked_as_the_cluster_would_ask_it() -> None:
    tainted = {"slices": (devices({"name": "a", "taints": [TAINT]}),)}
    said = [why(pod(), **tainted, gates=FeatureGates.for_release(release)) for release in ("1.34", "1.37")]
    refusal = "request 'r' needs 1 device: 0 of 1 free devices have no untolerated taint (broken:NoSchedule)"
    assert said == ["the scheduler has not tried it yet", refusal]
