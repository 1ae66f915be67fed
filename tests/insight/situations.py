"""The corpus: situations in which something does not fit, and what an explanation must contain.

Sources: «cel» is docs/spec/cel.md §9, «sdk» docs/spec/driver-sdk.md, «scheduling» docs/spec/scheduling.md, «allocation»
docs/spec/allocation.md; threads are those of the README beside this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.insight.building import (
    Object,
    claim,
    counted,
    device,
    device_class,
    gpus,
    held,
    node,
    pod,
    pod_group,
    quota,
    request,
    slice_of,
    template,
)

__all__ = ["SITUATIONS", "Situation"]

A = 'device.attributes["gpu.example.com"]'
C = 'device.capacity["gpu.example.com"]'
TAINT = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Situation:
    """``kinds`` are the causes in their order, ``says`` must be part of the text, ``helps`` among the changes."""

    name: str
    objects: list[Object]
    kinds: tuple[str, ...]
    says: tuple[str, ...]
    helps: tuple[str, ...] = ()
    subject: str = "pod/p"
    source: str = ""
    newest_only: bool = False
    """True if older API versions cannot express it."""
    verdict: str = "does not fit"
    more: Object = field(default_factory=dict)


def asks(*requests: Object, **more: object) -> list[Object]:
    """A pod with a template, on a node with a class."""
    return [node(), device_class(), template("t", *requests, **more), pod("template:t")]  # type: ignore[arg-type]


def selecting(name: str, selector: str, devices: Object, kind: str, *says: str, source: str = "") -> Situation:
    """A request with a selector that no device matches, so that a relaxed one helps."""
    objects = [*asks(request("gpu", "gpu", 1, selector)), devices]
    return Situation(name, objects, (kind,), says, ("relax selector",), source=source)


USERS: Object = {
    "containers": [{"name": "main", "image": "main"}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
}
"""The spec of pods that use the template «t»."""


def workload(version: str, kind: str, name: str, **spec: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def two_of(name: str) -> Object:
    """The spec of a workload with two pods that use the template «t»."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": USERS}
    return {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}


def either(first: str) -> Object:
    """A request for a device of a class, or else one of the class «gpu»."""
    classes = {"big": first, "small": "gpu"}
    return {
        "name": "gpu",
        "firstAvailable": [
            {"name": name, "deviceClassName": cls, "allocationMode": "ExactCount", "count": 1}
            for name, cls in classes.items()
        ],
    }


def using(resource: str) -> Object:
    """A pod that requests an extended resource."""
    amounts = {resource: "1"}
    container = {"name": "main", "image": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {**pod(), "spec": {"containers": [container]}}


GANGS: Object = {"feature gates": {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}}


def in_group(name: str) -> Object:
    """A pod of the group «ring»."""
    return pod("template:t", name=name, schedulingGroup={"podGroupName": "ring"})


SITUATIONS: tuple[Situation, ...] = (
    # --- what is missing
    Situation(
        "the claim does not exist",
        [node(), device_class(), gpus(1), pod("claim:gone")],
        ("missing claim",),
        ("claim 'gone' does not exist in namespace 'default'",),
        source="scheduling §2",
    ),
    Situation(
        "the claim's name is misspelt",
        [node(), device_class(), gpus(1), claim("training-gpu"), pod("claim:trainng-gpu")],
        ("missing claim",),
        ("did you mean 'training-gpu'?",),
    ),
    Situation(
        "the claim is in another namespace",
        [node(), device_class(), gpus(1), claim("c", namespace="team"), pod("claim:c")],
        ("wrong namespace",),
        ("there is one in team, but a pod uses only those of its own namespace",),
        source="scheduling §2",
    ),
    Situation(
        "the template does not exist",
        [node(), device_class(), gpus(1), pod("template:t")],
        ("missing template",),
        ("template 't' does not exist in namespace 'default' (objects has no templates at all)",),
    ),
    Situation(
        "the template is in another namespace",
        [node(), device_class(), gpus(1), template("t", namespace="team"), pod("template:t")],
        ("wrong namespace",),
        ("there is one in team",),
    ),
    Situation(
        "the class does not exist",
        [node(), device_class("gpu-a100"), gpus(1), template("t", request("gpu", "gpu-a10")), pod("template:t")],
        ("missing class",),
        ("device class gpu-a10 does not exist", "there are gpu-a100"),
        ("use another class",),
        source="dra-driver-nvidia-gpu 136",
    ),
    Situation(
        "the driver's class was never created",
        [node(), device_class("other"), gpus(1), template("t", request("gpu", "gpu.example.com")), pod("template:t")],
        ("missing class",),
        ('create the device class gpu.example.com with the selector device.driver == "gpu.example.com"',),
        ("create class", "use another class"),
        source="dra-driver-nvidia-gpu 136",
    ),
    Situation(
        "there is no class at all",
        [node(), gpus(1), template("t"), pod("template:t")],
        ("missing class",),
        ("objects has no device classes at all",),
    ),
    Situation(
        "one of the alternatives has no class",
        [
            *(node(), device_class(), gpus(1)),
            template("t", either("no")),
            pod("template:t"),
        ],
        ("missing class",),
        ("request gpu/big: device class no does not exist",),
        source="allocation §6",
    ),
    Situation(
        "the cluster has no nodes",
        [{"apiVersion": "v1", "kind": "NodeList", "items": []}, device_class(), template("t"), pod("template:t")],
        ("no nodes",),
        ("the cluster has no nodes",),
        more={"list": True},
    ),
    Situation(
        "the driver publishes nothing",
        [*asks(), slice_of(device("nic-0"), driver="nic.example.com")],
        ("driver not publishing",),
        ("driver gpu.example.com of class gpu publishes no ResourceSlice", "drivers that publish: nic.example.com"),
        source="Project-HAMi/k8s-dra-driver 5",
    ),
    Situation(
        "no driver publishes anything",
        asks(),
        ("driver not publishing",),
        ("no driver publishes any",),
    ),
    Situation(
        "the driver has published a slice without devices",
        [*asks(), slice_of()],
        ("reach",),
        ("request 'gpu' needs 1, 0 devices in reach",),
        source="dra-driver-nvidia-gpu 1008",
    ),
    Situation(
        "the devices are on another node than the one that would do",
        [
            *(node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}), device_class(), gpus(2, "n2")),
            *(template("t"), pod("template:t", nodeSelector={"zone": "a"})),
        ],
        ("node affinity", "reach"),
        ("node(s) didn't match Pod's node affinity/selector (NodeAffinity): nodeSelector zone=a", "0 devices in reach"),
        ("drop node selector",),
    ),
    # --- pools
    Situation(
        "the pool is incomplete",
        [*asks(), slice_of(device("gpu-0"), count=2)],
        ("reach", "pool"),
        ("pool gpu.example.com/n1 is being updated", "generation 1 has 1 of 2 slices"),
        source="allocation §5; sdk",
    ),
    Situation(
        "the newest generation of the pool is incomplete",
        [
            *asks(),
            slice_of(device("gpu-0"), generation=1, name="old"),
            slice_of(device("gpu-0"), generation=2, count=2, name="new"),
        ],
        ("reach", "pool", "pool"),
        ("generation 2 has 1 of 2 slices", "has 1 slice of an old generation"),
        source="sdk",
    ),
    Situation(
        "devices are in slices of an old generation only",
        [
            *asks(request("gpu", "gpu", 2)),
            slice_of(device("gpu-0"), device("gpu-1"), generation=1, name="old"),
            slice_of(device("gpu-0"), generation=2, name="new"),
        ],
        ("reach", "pool"),
        ("request 'gpu' needs 2, 1 device in reach", "1 slice of an old generation"),
        ("lower count",),
    ),
    Situation(
        "a device name appears twice in the pool",
        [
            *asks(),
            slice_of(device("gpu-0"), count=2, name="a"),
            slice_of(device("gpu-0"), count=2, name="b"),
        ],
        ("pool", "pool"),
        ("invalid resource pools were encountered", "is invalid: device gpu-0 appears twice"),
        source="allocation §5",
    ),
    Situation(
        "all devices are wanted, and a pool is incomplete",
        [*asks(request("gpu", "gpu", allocationMode="All")), slice_of(device("gpu-0"), count=2)],
        ("pool", "pool"),
        ("asks for all devices, but resource pool gpu.example.com/n1 is currently being updated",),
        source="allocation §6",
    ),
    Situation(
        "all devices are wanted, and there is none",
        [*asks(request("gpu", "gpu", allocationMode="All")), slice_of(device("x"), driver="nic.example.com")],
        ("driver not publishing",),
        ("driver gpu.example.com of class gpu publishes no ResourceSlice",),
        source="allocation §6",
    ),
    Situation(
        "all devices are wanted, and one of them is held",
        [*asks(request("gpu", "gpu", allocationMode="All")), gpus(2), held("x", "gpu-0", by="q")],
        ("allocated",),
        ("needs all, 1 of 2 matching devices are free (held by other/x)",),
        ("free claim",),
    ),
    # --- selectors
    selecting(
        "no device has the wanted value",
        f'{A}.model == "h100"',
        gpus(2),
        "selectors",
        "0 of 2 devices of its class match its selectors",
        "selector #0: 0 yes, 2 no",
    ),
    selecting(
        "one part of a selector is too strict",
        f'{A}.model == "a100" && {C}.memory.compareTo(quantity("80Gi")) >= 0',
        gpus(2),
        "selectors",
        f'{C}.memory.compareTo(quantity("40Gi")) >= 0 instead of',
    ),
    selecting(
        "a value in another case",
        f'{A}.model == "A100"',
        gpus(1),
        "selectors",
        f'{A}.model == "a100" instead of {A}.model == "A100"',
        source="cel",
    ),
    selecting(
        "an attribute that no device has",
        f'{A}.nvlink == "x"',
        gpus(2),
        "selector error",
        "CEL runtime error: no such key: nvlink",
        "attribute gpu.example.com/nvlink is set on 0 devices",
        source="cel",
    ),
    selecting(
        "an attribute that few devices have, unguarded",
        f"{A}.ready",
        slice_of(device("gpu-0", model="a"), device("gpu-1", model="a", ready=True)),
        "selector error",
        "no such key: ready",
        f'with "ready" in {A} in front',
        source="cel",
    ),
    Situation(
        "an attribute that few devices have, guarded",
        [
            *asks(request("gpu", "gpu", 2, f"{A}.?ready.orValue(false)")),
            slice_of(*(device(f"gpu-{n}", model="a") for n in range(11)), device("gpu-x", model="a", ready=True)),
        ],
        ("selectors",),
        ("1 of 12 devices of its class match its selectors",),
        ("lower count", "relax selector"),
        source="cel",
    ),
    selecting(
        "the class's name for a domain",
        'device.attributes["gpu"].model == "a100"',
        gpus(1),
        "selector error",
        "no such key: model",
        source="cel",
    ),
    selecting(
        "a number compared with a text",
        f'{A}.index == "5"',
        gpus(1, index=5),
        "selectors",
        "0 of 1 device of its class match its selectors",
        source="cel",
    ),
    selecting(
        "a number that is negated", f"!{A}.index", gpus(1, index=5), "selector error", "no such overload", source="cel"
    ),
    selecting(
        "a version compared as a text",
        f'{A}.driver >= "1.2.0"',
        gpus(1, driver={"version": "2.0.0"}),
        "selector error",
        "no such overload",
        source="cel",
    ),
    selecting(
        "a version that is too old",
        f'{A}.driver.compareTo(semver("2.0.0")) >= 0',
        gpus(1, driver={"version": "1.9.3"}),
        "selectors",
        'semver("1.9.3")',
        source="cel",
    ),
    selecting(
        "memory that no device has",
        f'{C}.memory.compareTo(quantity("80Gi")) >= 0',
        gpus(1),
        "selectors",
        'quantity("40Gi")',
        source="cel",
    ),
    selecting(
        "a capacity that is looked for among the attributes",
        f'{A}.memory.compareTo(quantity("40Gi")) >= 0',
        gpus(1),
        "selector error",
        "no such key: memory",
        source="cel",
    ),
    selecting(
        "an element beyond a list",
        f"{A}.index / {A}.zero == 1",
        gpus(1, index=5, zero=0),
        "selector error",
        "division by zero",
        source="cel",
    ),
    Situation(
        "a selector that does not compile",
        [*asks(request("gpu", "gpu", 1, f"{C}.memory >= 10Gi")), gpus(1)],
        ("selector does not compile",),
        ("CEL compile error",),
        source="cel",
        more={"stored": True},
    ),
    Situation(
        "a class that fits no device",
        [
            *(node(), device_class("gpu", 'device.driver == "gpu.example.com"', f'{A}.model == "h100"'), gpus(2)),
            *(template("t"), pod("template:t")),
        ],
        ("class",),
        ("0 of 2 devices in reach are of class gpu",),
        (),
    ),
    Situation(
        "a class whose selector fails on a device",
        [node(), device_class("gpu", f"{A}.ready"), gpus(1), template("t"), pod("template:t")],
        ("selector error",),
        ("class gpu: selector #0", "no such key: ready"),
        (),
    ),
    Situation(
        "two selectors of which each fits another device",
        [
            *asks(request("gpu", "gpu", 1, f'{A}.model == "a100"', f'{A}.zone == "x"')),
            slice_of(device("gpu-0", model="a100", zone="y"), device("gpu-1", model="h100", zone="x")),
        ],
        ("selectors",),
        ("0 of 2 devices of its class match its selectors",),
        ("relax selector",),
    ),
    # --- numbers, holders
    Situation(
        "more devices than any node has",
        [*asks(request("gpu", "gpu", 4)), gpus(2)],
        ("reach",),
        ("request 'gpu' needs 4, 2 devices in reach",),
        ("lower count",),
    ),
    Situation(
        "all devices are held",
        [*asks(), gpus(2), held("x", "gpu-0", by="q"), held("y", "gpu-1", by="r")],
        ("allocated",),
        ("0 of 2 matching devices are free (held by other/x, other/y)", "free claim other/x (used by pod q)"),
        ("free claim", "add node"),
    ),
    Situation(
        "a claim that no pod uses holds the device",
        [*asks(), gpus(1), held("idle", "gpu-0")],
        ("allocated",),
        ("free claim other/idle (used by no pod)",),
        ("free claim", "add node"),
    ),
    Situation(
        "two claims have to go",
        [
            *asks(request("gpu", "gpu", 3)),
            *(gpus(3), held("x", "gpu-0", by="q"), held("y", "gpu-1", by="r")),
        ],
        ("allocated",),
        ("1 of 3 matching devices are free",),
        ("lower count", "free claim"),
    ),
    Situation(
        "the devices are spread over nodes",
        [
            *(node("n1"), node("n2"), device_class(), gpus(2, "n1"), gpus(2, "n2")),
            *(held("x", "gpu-0", pool="n1", by="q"), held("y", "gpu-0", pool="n2", by="r")),
            *(template("t", request("gpu", "gpu", 2)), pod("template:t")),
        ],
        ("allocated",),
        ("fits on none of 2 nodes", "1 of 2 matching devices are free"),
        ("lower count", "free claim", "add node"),
    ),
    Situation(
        "more than 32 devices for one claim",
        [*asks(request("a", "gpu", 20), request("b", "gpu", 20)), gpus(64)],
        ("too many devices",),
        ("exceeds the claim limit of 32",),
        ("lower count",),
        source="allocation §6",
        more={"stored": True},
    ),
    Situation(
        "two requests want the same device",
        [*asks(request("a"), request("b")), gpus(1)],
        ("other requests", "other requests"),
        ("it fits alone, but the other requests take what it needs",),
        ("drop request",),
    ),
    Situation(
        "two claims of the pod want the same device",
        [node(), device_class(), gpus(1), template("t"), template("u"), pod("template:t", "template:u")],
        ("other requests", "other requests"),
        ("it fits alone",),
    ),
    Situation(
        "every alternative is taken",
        [
            *(node(), device_class(), device_class("big", f'{A}.model == "h100"'), gpus(1), held("x", "gpu-0", by="q")),
            template("t", either("big")),
            pod("template:t"),
        ],
        ("class", "allocated"),
        ("request 'gpu/big' needs 1, 0 of 1 device in reach are of class big", "request 'gpu/small' needs 1"),
        ("free claim",),
        source="allocation §6",
    ),
    # --- taints of devices
    Situation(
        "the device is tainted",
        [*asks(), slice_of({"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoSchedule"}]})],
        ("taints",),
        ("0 of 1 free device have no untolerated taint (broken:NoSchedule)",),
        ("tolerate device taint",),
        source="allocation §11",
        newest_only=True,
    ),
    Situation(
        "a rule taints the driver's devices",
        [
            *(*asks(), gpus(1)),
            {
                "apiVersion": "resource.k8s.io/v1beta2",
                "kind": "DeviceTaintRule",
                "metadata": {"name": "maintenance"},
                "spec": {
                    "deviceSelector": {"driver": "gpu.example.com"},
                    "taint": {"key": "maintenance", "value": "yes", "effect": "NoExecute"},
                },
            },
        ],
        ("taints",),
        ("maintenance=yes:NoExecute",),
        ("tolerate device taint",),
        source="allocation §4",
    ),
    # --- gangs
    Situation(
        "the pod's group does not exist",
        [node(), device_class(), template("t", request()), gpus(1), in_group("p")],
        ("pod group",),
        ('waiting for pods\'s pod group "ring" to appear in scheduling queue',),
        source="scheduling §14",
        more=GANGS,
    ),
    Situation(
        "the group has fewer pods than it must have",
        [node(), device_class(), template("t", request()), gpus(4), in_group("p"), in_group("q"), pod_group("ring", 3)],
        ("pod group",),
        ("waiting for minCount pods from a gang to appear in scheduling queue",),
        source="scheduling §14",
        more=GANGS,
    ),
    Situation(
        "a group that is complete finds too few devices",
        [
            *(node(), device_class(), template("t", request("gpu", "gpu", 2)), gpus(1)),
            *(in_group("p"), in_group("q"), pod_group("ring", 2)),
        ],
        ("reach",),
        # One device for each of two pods would not do: no single change is proposed.
        ("request 'gpu' needs 2, 1 device in reach",),
        source="scheduling §14",
        more=GANGS,
    ),
    Situation(
        "a smaller request makes the whole group fit",
        [
            *(node(), device_class(), template("t", request("gpu", "gpu", 3)), gpus(2)),
            *(in_group("p"), in_group("q"), pod_group("ring", 2)),
        ],
        ("reach",),
        ("request 'gpu' needs 3, 2 devices in reach", "count of request 'gpu' of template default/t from 3 to 1"),
        ("lower count",),
        source="scheduling §14",
        more=GANGS,
    ),
    Situation(
        "the pods of a group fit alone and not together",
        [
            *(node(), device_class(), template("t", request("gpu", "gpu", 1)), gpus(1)),
            *(in_group("p"), in_group("q"), in_group("r"), pod_group("ring", 3)),
        ],
        ("pod group", "allocated"),
        ("is bound with its gang only (PodGroup ring): 1 of 3 pods fit together, q finds no node", "add 2 nodes like"),
        ("add node",),
        source="scheduling §14",
        more=GANGS,
    ),
    Situation(
        "no claims are made for pods of a group",
        [
            *(node(), device_class(), template("t", request("gpu", "gpu", 1)), gpus(4)),
            *(in_group("p"), in_group("q"), pod_group("ring", 2)),
        ],
        ("feature disabled",),
        ("DRAWorkloadResourceClaims feature is disabled but Pod is in PodGroup ring",),
        source="controllers §2.4",
        more={"feature gates": {"GenericWorkload": True}},
    ),
    # --- capacity and counters
    Situation(
        "no device has the capacity",
        [
            *asks(request("gpu", "gpu", 1, capacity={"requests": {"memory": "80Gi"}})),
            slice_of({**device("gpu-0", memory="40Gi"), "allowMultipleAllocations": True}),
        ],
        ("capacity",),
        ("0 of 1 free device have enough capacity left (memory: 80Gi wanted)", "from 80Gi to 40Gi"),
        ("lower capacity",),
        source="allocation §8",
        newest_only=True,
    ),
    Situation(
        "others have taken the capacity of the shared device",
        [
            *asks(request("gpu", "gpu", 1, capacity={"requests": {"memory": "32Gi"}})),
            slice_of({**device("gpu-0", memory="40Gi"), "allowMultipleAllocations": True}),
            held(
                "x",
                "gpu-0",
                by="q",
                shareID="6e7ac1f5-c2a5-44f7-9b1d-cf2ca8cba8c6",
                consumedCapacity={"memory": "20Gi"},
            ),
        ],
        ("capacity",),
        ("0 of 1 free device have enough capacity left",),
        ("lower capacity", "free claim"),
        source="allocation §8",
        newest_only=True,
    ),
    Situation(
        "a partition has used up the counters",
        [
            *asks(request("gpu", "gpu", 1, 'device.attributes["gpu.example.com"].whole')),
            slice_of(count=2, name="counters", sharedCounters=[{"name": "gpu", "counters": {"slots": {"value": "7"}}}]),
            slice_of(
                {**counted("whole", slots=7), "attributes": {"whole": {"bool": True}}},
                {**counted("half", slots=3), "attributes": {"whole": {"bool": False}}},
                count=2,
                name="devices",
            ),
            held("x", "half", by="q"),
        ],
        ("counters",),
        ("0 of 1 free device have enough left of the counters that they share with allocated devices",),
        ("free claim",),
        source="allocation §9",
        newest_only=True,
    ),
    Situation(
        "partitions that exclude each other",
        [
            *asks(request("gpu", "gpu", 2)),
            slice_of(count=2, name="counters", sharedCounters=[{"name": "gpu", "counters": {"slots": {"value": "7"}}}]),
            slice_of(counted("a", slots=4), counted("b", slots=4), count=2, name="devices"),
        ],
        ("combination",),
        ("2 devices would do one by one, but not together",),
        ("lower count",),
        source="allocation §9",
        newest_only=True,
    ),
    # --- constraints
    Situation(
        "no two devices agree",
        [
            *asks(request("gpu", "gpu", 2), constraints=[{"matchAttribute": "gpu.example.com/numa"}]),
            slice_of(device("gpu-0", numa=0), device("gpu-1", numa=1)),
        ],
        ("constraint",),
        ("only 1 of the devices left agree in gpu.example.com/numa: 0 (1), 1 (1)",),
        ("drop constraint", "lower count"),
        source="allocation §10",
    ),
    Situation(
        "two requests cannot agree",
        [
            *(node(), device_class(), device_class("nic", 'device.driver == "nic.example.com"')),
            slice_of(device("gpu-0", **{"resource.kubernetes.io/pcieRoot": "pci0"})),
            slice_of(
                device("nic-0", **{"resource.kubernetes.io/pcieRoot": "pci1"}), driver="nic.example.com", pool="nics"
            ),
            template(
                "t",
                request("gpu"),
                request("nic", "nic"),
                constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
            ),
            pod("template:t"),
        ],
        ("other requests",),
        ("no value has enough devices for gpu and nic (pci0: too few for nic; pci1: too few for gpu)",),
        ("drop constraint",),
        source="allocation §10",
    ),
    Situation(
        "the attribute of a constraint is not set",
        [
            *asks(request("gpu", "gpu", 1), constraints=[{"matchAttribute": "gpu.example.com/numa"}]),
            gpus(2),
        ],
        ("constraint attributes",),
        ("gpu.example.com/numa is not set on 2",),
        ("drop constraint",),
        source="allocation §10",
    ),
    Situation(
        "devices that must differ are alike",
        [
            *asks(request("gpu", "gpu", 2), constraints=[{"distinctAttribute": "gpu.example.com/board"}]),
            slice_of(device("gpu-0", board="b0"), device("gpu-1", board="b0")),
        ],
        ("constraint",),
        ("only 1 of the devices left differ in gpu.example.com/board",),
        ("drop constraint", "lower count"),
        source="allocation §10",
        newest_only=True,
    ),
    # --- allocated claims
    Situation(
        "the claim is allocated on a node that is full",
        [
            *(node("n1", cpu="1"), node("n2"), device_class(), gpus(1, "n1"), gpus(1, "n2")),
            *(held("c", "gpu-0", namespace="default", node="n1", by="q"), pod("claim:c", cpu="2")),
        ],
        ("node resources", "allocated elsewhere"),
        ("claim default/c is allocated on node n1", "Insufficient cpu (NodeResourcesFit): 2 wanted, at most 1 free"),
        ("lower request",),
        source="scheduling §5",
    ),
    Situation(
        "the claim is allocated for labels that no node has any more",
        [
            *(node("n1"), device_class(), slice_of(device("gpu-0"), node=None)),
            {
                **held("c", "gpu-0", namespace="default", pool="shared"),
                "status": {
                    "allocation": {
                        "devices": {
                            "results": [
                                {"request": "gpu", "driver": "gpu.example.com", "pool": "shared", "device": "gpu-0"}
                            ]
                        },
                        "nodeSelector": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r9"]}]}
                            ]
                        },
                    }
                },
            },
            pod("claim:c"),
        ],
        ("allocated elsewhere",),
        ("is allocated on nodes with rack In r9",),
    ),
    Situation(
        "the claim is being deleted",
        [
            *(node(), device_class(), gpus(1)),
            {
                **claim("c"),
                "metadata": {
                    "name": "c",
                    "namespace": "default",
                    "uid": "c",
                    "deletionTimestamp": "2026-07-01T00:00:00Z",
                    "finalizers": ["resource.kubernetes.io/delete-protection"],
                },
            },
            pod("claim:c"),
        ],
        ("claims",),
        ('resourceclaim "c" is being deleted',),
        source="scheduling §2",
    ),
    Situation(
        "the generated claim belongs to another pod",
        [
            *(node(), device_class(), gpus(1), template("t")),
            {
                **claim("p-e0-x"),
                "metadata": {
                    "name": "p-e0-x",
                    "namespace": "default",
                    "uid": "x",
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "an-older-p", "controller": True}
                    ],
                },
            },
            pod("template:t", status={"resourceClaimStatuses": [{"name": "e0", "resourceClaimName": "p-e0-x"}]}),
        ],
        ("claims",),
        ("was not created for Pod default/p (Pod is not owner)",),
        source="scheduling §2",
    ),
    # --- beside devices
    Situation(
        "the nodes with devices are tainted",
        [
            *(node("n1", taints=[TAINT]), node("n2"), device_class(), gpus(1, "n1")),
            *(template("t"), pod("template:t")),
        ],
        ("node taints", "reach"),
        ("node(s) had untolerated taint(s) (TaintToleration): dedicated=infra:NoSchedule",),
        ("tolerate node taint",),
        source="scheduling §17",
    ),
    Situation(
        "the node is cordoned",
        [node("n1", unschedulable=True), device_class(), gpus(1), template("t"), pod("template:t")],
        ("cordoned",),
        ("node(s) were unschedulable (NodeUnschedulable)",),
        source="scheduling §17",
    ),
    Situation(
        "too little CPU where the devices are",
        [node("n1", cpu="2"), device_class(), gpus(1), template("t"), pod("template:t", cpu="4")],
        ("node resources",),
        ("Insufficient cpu (NodeResourcesFit): 4 wanted, at most 2 free", "from 4 to 2"),
        ("lower request",),
        source="KAI-Scheduler 1217",
    ),
    Situation(
        "tainted, and too little CPU",
        [node("n1", cpu="2", taints=[TAINT]), device_class(), gpus(1), template("t"), pod("template:t", cpu="4")],
        ("node taints", "node resources"),
        ("Insufficient cpu", "untolerated taint"),
        ("lower request and tolerate node taint",),
    ),
    Situation(
        "the pod's node affinity names a zone without devices",
        [
            *(node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}), device_class(), gpus(1, "n1")),
            template("t"),
            pod(
                "template:t",
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
                            ]
                        }
                    }
                },
            ),
        ],
        ("node affinity", "reach"),
        ("node(s) didn't match Pod's node affinity/selector",),
        ("drop node affinity",),
    ),
    Situation(
        "the pod is gated",
        [
            *asks(),
            gpus(1),
        ],
        ("scheduling gates",),
        ("waiting for scheduling gates: [quota]",),
        ("remove scheduling gates",),
        source="scheduling §17",
        more={"gates": [{"name": "quota"}]},
    ),
    Situation(
        "a quota on the class's devices",
        [
            *(*asks(request("gpu", "gpu", 2)), gpus(4)),
            quota({"gpu.deviceclass.resource.k8s.io/devices": "2"}, {"gpu.deviceclass.resource.k8s.io/devices": "1"}),
        ],
        ("quota",),
        (
            "exceeded quota: limits, requested: gpu.deviceclass.resource.k8s.io/devices=2, "
            "used: gpu.deviceclass.resource.k8s.io/devices=1, limited: gpu.deviceclass.resource.k8s.io/devices=2",
        ),
        source="controllers §11",
    ),
    Situation(
        "the pod was given its node past the scheduler",
        [node(), device_class(), gpus(1), claim("c"), pod("claim:c", nodeName="n1")],
        ("pre-scheduled",),
        ("was given node n1 in its spec.nodeName, past the scheduler",),
        verdict="waiting",
        source="kubernetes/website 57218",
    ),
    Situation(
        "the node cannot prepare the claim",
        [
            *(node(), device_class(), gpus(1), held("c", "gpu-0", namespace="default", node="n1", by="p")),
            pod("claim:c", nodeName="n1"),
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "p.1", "namespace": "default"},
                "type": "Warning",
                "reason": "FailedPrepareDynamicResources",
                "message": "driver gpu.example.com is not registered",
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "uid": "pod-p"},
            },
        ],
        ("node",),
        ("FailedPrepareDynamicResources: driver gpu.example.com is not registered", "not prepared"),
        verdict="waiting",
        source="sdk",
    ),
    Situation(
        "the claim of a pod with a node is not reserved for it",
        [
            *(node(), device_class(), gpus(1), held("c", "gpu-0", namespace="default", node="n1")),
            pod("claim:c", nodeName="n1"),
        ],
        ("not reserved",),
        ("claim default/c is not reserved for the pod",),
        verdict="waiting",
    ),
    Situation(
        "an extended resource whose class has no free device",
        [
            *(node(), device_class("gpu", extendedResourceName="example.com/gpu"), gpus(1), held("x", "gpu-0", by="q")),
            using("example.com/gpu"),
        ],
        ("allocated",),
        ("0 of 1 matching device are free (held by other/x)",),
        ("free claim",),
        source="scheduling §12",
        newest_only=True,
    ),
    Situation(
        "an extended resource that no class and no device plugin provides",
        [
            *(node(), device_class(), gpus(1)),
            using("example.com/fpga"),
        ],
        ("node resources",),
        ("Insufficient example.com/fpga",),
        source="scheduling §12",
    ),
    # --- workloads and claims
    Situation(
        "a deployment whose pods would not fit",
        [
            *(node(), device_class(), gpus(1), held("x", "gpu-0", by="q"), template("t")),
            workload("apps/v1", "Deployment", "d", **two_of("d")),
        ],
        ("allocated",),
        ("a new pod of deployment default/d: does not fit", "held by other/x"),
        ("free claim",),
        subject="deployment/d",
    ),
    Situation(
        "a job that is suspended",
        [
            *(node(), device_class(), gpus(1), template("t")),
            workload("batch/v1", "Job", "j", suspend=True, template={"spec": {"restartPolicy": "Never", **USERS}}),
        ],
        ("suspended",),
        ("job j is suspended",),
        subject="job/j",
    ),
    Situation(
        "a replica set that a quota keeps from making pods",
        [
            *(node(), device_class(), gpus(1), template("t")),
            {
                **workload("apps/v1", "ReplicaSet", "r", **two_of("r")),
                "status": {
                    "replicas": 0,
                    "conditions": [
                        {
                            "type": "ReplicaFailure",
                            "status": "True",
                            "reason": "FailedCreate",
                            "message": 'pods "r-x" is forbidden: exceeded quota: limits',
                        }
                    ],
                },
            },
        ],
        ("quota",),
        ('FailedCreate: pods "r-x" is forbidden: exceeded quota: limits',),
        subject="rs/r",
    ),
    Situation(
        "a claim alone that fits nowhere",
        [node(), device_class(), gpus(1), claim("c", request("gpu", "gpu", 2))],
        ("reach",),
        ("claim default/c: does not fit", "request 'gpu' needs 2, 1 device in reach"),
        ("lower count",),
        subject="claim/c",
    ),
    Situation(
        "a template alone that fits nowhere",
        [node(), device_class(), gpus(1), template("t", request("gpu", "gpu", 1, f'{A}.model == "b200"'))],
        ("selectors",),
        ("template default/t: does not fit",),
        ("relax selector",),
        subject="template/t",
    ),
)
