"""Causes: the obstacles, each once, the decisive ones first.

Missing objects come first, then the refusals of the scheduler, then those of single nodes. Nodes with the same reason
are counted together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.insight.explanation.analysis import Analysis, error_shape
from cathedra.insight.explanation.report import Cause, NodeGroup, RequestFunnel
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.rendering import amount_text
from cathedra.printable import counted
from cathedra.scheduler.judging import DEVICES, requests_of
from cathedra.semantics.tolerations import HARD_EFFECTS, is_tolerated

DRIVER: Final = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_NO_FIT: Final = "cannot allocate all claims"
_NOT_HERE: Final = "resourceclaim not available on the node"
_WAITING: Final = {"SchedulingGates": "scheduling gates", "GangScheduling": "pod group", DEVICES: "claims"}
_OUTSIDE: Final = {
    "NodeName": "node name",
    "NodeUnschedulable": "cordoned",
    "TaintToleration": "node taints",
    "NodeAffinity": "node affinity",
    "NodePorts": "ports",
    "NodeResourcesFit": "node resources",
    "PodTopologySpread": "topology spread",
    "InterPodAffinity": "pod affinity",
    **dict.fromkeys(("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"), "volumes"),
}


def causes_of(analysis: Analysis) -> tuple[Cause, ...]:
    """Return everything that keeps the pod, or the claims, from nodes; empty if it fits on some node."""
    if analysis.fitting:
        return ()
    return tuple(_causes(analysis))


def _causes(analysis: Analysis) -> Iterator[Cause]:
    judgement, state = analysis.judgement, analysis.state
    if judgement.waiting is not None:
        yield Cause(_WAITING.get(judgement.waiting.plugin, "waiting"), judgement.waiting.message)
    if judgement.ended is not None:
        yield _ended(analysis, judgement.ended.message, judgement.ended.plugin)
    if not judgement.nodes:
        yield Cause("no nodes", "the cluster has no nodes" if not state.nodes else "no such node")
    silent = list(_silent_drivers(analysis))
    yield from silent
    total = len(judgement.nodes)
    outside = list(_outside(analysis, total))
    devices = list(_device_causes(analysis, total, quiet=bool(silent)))
    # If some node has the devices, the refusals of the other filters come first.
    blocked = [name for name in judgement.outside if name not in judgement.devices and judgement.ended is None]
    yield from (*outside, *devices) if blocked else (*devices, *outside)
    yield from pool_causes(analysis)


def _ended(analysis: Analysis, text: str, plugin: str) -> Cause:
    # The scheduler has its refusals as texts only, in Kubernetes' words, which do not change within a release.
    found = re.search(r"device class (\S+) does not exist", text)
    if plugin == DEVICES and (missing := analysis.state.without_devices):
        return Cause("no devices", missing)
    if plugin == DEVICES and found:
        classes = sorted(one.metadata.name for one in analysis.state.all(DeviceClass))
        if not analysis.state.is_known(DeviceClass):
            return Cause("missing class", f"{text}: {analysis.state.source} has no device classes at all")
        known = f"{', '.join(classes[:5])}{' …' if len(classes) > 5 else ''}" if classes else "no device classes"
        return Cause("missing class", f"{text}; there are {known}")
    if plugin == DEVICES:
        return Cause("claims", text)
    return Cause(_OUTSIDE.get(plugin, "scheduler"), text)


# --- devices


def _device_causes(analysis: Analysis, total: int, *, quiet: bool) -> Iterator[Cause]:
    """Yield the causes in the allocator, from the nearest group for each request and obstacle."""
    told: dict[tuple[str, ...], tuple[Cause, int]] = {}
    order: dict[tuple[str, ...], int] = {}
    for group in analysis.groups:
        if not group.refusal:
            continue
        for key, cause in _group_causes(analysis, group):
            # A driver that publishes nothing is the cause already; that no device is in reach follows from it.
            if quiet and key[0] in ("reach", "class"):
                continue
            known = told.get(key)
            told[key] = (known[0] if known else cause, (known[1] if known else 0) + len(group.nodes))
            order.setdefault(key, len(order))
    for key in sorted(told, key=lambda key: order[key]):
        cause, nodes = told[key]
        yield Cause(cause.kind, cause.text, None if nodes == total and total > 1 else nodes)


def _group_causes(analysis: Analysis, group: NodeGroup) -> Iterator[tuple[tuple[str, ...], Cause]]:
    text = group.refusal
    if text == _NOT_HERE:
        yield (_NOT_HERE,), Cause("allocated elsewhere", f"{text}: {_places(analysis)}")
        return
    if text != _NO_FIT:
        yield _error_cause(analysis, text)
        return
    # A request that cannot be satisfied alone decides; competition between requests matters only if there is none.
    alone = [one for one in group.requests if one.obstacle and one.obstacle != "other requests"]
    chosen = alone or [one for one in group.requests if one.obstacle] or list(group.requests)
    if not chosen:
        yield (text,), Cause("devices", text)
    alternatives = _are_alternatives(group)
    found: dict[tuple[str, ...], Cause] = {}
    for one in chosen:
        if one.obstacle or not alternatives:
            # Constraints of one form lack the same: their requests are one cause.
            key = (one.obstacle, one.claim, one.shortage or one.request)
            found.setdefault(key, Cause(one.obstacle or "other requests", _where(one, analysis)))
    yield from found.items()


def _error_cause(analysis: Analysis, text: str) -> tuple[tuple[str, ...], Cause]:
    """Return the cause for an error of the allocator. A time-out names what is undecided, once for all nodes."""
    found = re.fullmatch(r"(?:node (\S+): )?(timed out trying to allocate devices)", text)
    if not found:
        return (error_shape(text),), Cause(_error_kind(text), text)
    for node in analysis.representatives or analysis.state.nodes:
        if analysis.prepared is not None and (stop := analysis.prepared.stop(node)):
            return (found[2],), Cause("time", f"{found[2]}: the search was {stop}")
    return (found[2],), Cause("time", found[2])


def _are_alternatives(group: NodeGroup) -> bool:
    return any("/" in one.request for one in group.requests)


def _where(one: RequestFunnel, analysis: Analysis) -> str:
    return f"claim {one.claim}, {one.text}" if len(analysis.claims) > 1 else one.text


def _error_kind(text: str) -> str:
    if "CEL compile error" in text:
        return "selector does not compile"
    if "CEL runtime error" in text:
        return "selector error"
    if "exceeds the claim limit" in text:
        return "too many devices"
    if "resource pool" in text:
        return "pool"
    if "feature" in text:
        return "feature disabled"
    if "extended resource" in text or text == "cannot fit resource":
        return "extended resources"
    return "devices"


def _places(analysis: Analysis) -> str:
    """Return where the pod's allocated claims can be used."""
    cycle = analysis.judgement.cycle
    parts = []
    for index in sorted(cycle.placements) if cycle is not None else ():
        assert cycle is not None
        claim = cycle.claims[index]
        parts.append(f"claim {claim.metadata.namespace}/{claim.metadata.name} is allocated {place_of(claim)}")
    return "; ".join(parts)


def place_of(claim: ResourceClaim) -> str:
    """Return where an allocated claim can be used."""
    allocation = claim.status.allocation
    if allocation is None:
        return "nowhere"
    if allocation.node_selector is None:
        return "for all nodes"
    terms = []
    for term in allocation.node_selector.node_selector_terms:
        for one in (*term.match_fields, *term.match_expressions):
            if one.key == "metadata.name" and one.operator == "In":
                return f"on node {', '.join(one.values)}"
            terms.append(f"{one.key} {one.operator} {', '.join(one.values)}".strip())
    return f"on nodes with {'; '.join(terms)}"


def _silent_drivers(analysis: Analysis) -> Iterator[Cause]:
    """Drivers that classes name and that publish nothing."""
    state = analysis.state
    if analysis.prepared is None or not analysis.groups:
        return
    drivers = sorted({piece.spec.driver for piece in state.all(ResourceSlice)})
    for class_name in _class_names(analysis.claims):
        class_ = state.get(DeviceClass, class_name)
        for selector in class_.spec.selectors if class_ is not None else ():
            named = DRIVER.search(selector.cel.expression) if selector.cel is not None else None
            if named is not None and named[1] not in drivers:
                known = f"drivers that publish: {', '.join(drivers)}" if drivers else "no driver publishes any"
                yield Cause(
                    "driver not publishing",
                    f"driver {named[1]} of class {class_name} publishes no ResourceSlice: it does not run, or found "
                    f"no devices ({known})",
                )


def _class_names(claims: tuple[ResourceClaim, ...]) -> list[str]:
    return sorted(
        {
            one.device_class_name
            for claim in claims
            for request in claim.spec.devices.requests or ()
            for one in (request.exactly, *request.first_available)
            if one is not None
        }
    )


def pool_causes(analysis: Analysis) -> Iterator[Cause]:
    """Return pools that are incomplete, or have slices of an old generation, where devices are wanted."""
    if analysis.prepared is None:
        return
    for driver, name, text in unusual_pools(analysis.state):
        yield Cause("pool", f"pool {driver}/{name} {text}")


def unusual_pools(state: ClusterState) -> Iterator[tuple[str, str, str]]:
    """Yield driver, pool, and the problem with its slices, or the reason why it is withheld."""
    # Only objects that cannot be decoded withhold pools. An inventory for the others takes 70 ms for 4,000 devices.
    withheld = state.cluster.inventory.snapshot().withheld if state.undecodable else {}
    for (driver, name), why in sorted(withheld.items()):
        yield driver, name, f"is {why}"
    yield from state.slice_problems


# --- beside devices


def _outside(analysis: Analysis, total: int) -> Iterator[Cause]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, statuses in analysis.judgement.outside.items():
        for status in statuses:
            for reason in status.reasons:
                reasons.setdefault((status.plugin, reason), []).append(name)
    for (plugin, reason), names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        detail = _detail(analysis, plugin, reason, names)
        text = f"{reason} ({plugin})" + (f": {detail}" if detail else "")
        yield Cause(_OUTSIDE.get(plugin, "scheduler"), text, None if len(names) == total and total > 1 else len(names))


def _detail(analysis: Analysis, plugin: str, reason: str, names: list[str]) -> str:
    pod, filters = analysis.pod, analysis.filters
    if pod is None or filters is None:
        return ""
    if plugin == "TaintToleration":
        return ", ".join(sorted({taint for node in analysis.nodes(frozenset(names)) for taint in _taints(node, pod)}))
    if plugin == "NodeResourcesFit" and reason.startswith("Insufficient "):
        resource = reason.removeprefix("Insufficient ")
        return _shortage(resource, requests_of(pod).get(resource, 0), filters.most_free(resource, names))
    if plugin == "NodeAffinity":
        wanted = [f"{key}={value}" for key, value in sorted((pod.spec.node_selector or {}).items())]
        return f"nodeSelector {', '.join(wanted)}" if wanted else ""
    return ""


def _taints(node: Node, pod: Pod) -> Iterator[str]:
    for taint in node.spec.taints:
        if taint.effect in HARD_EFFECTS and not is_tolerated(taint, pod.spec.tolerations):
            yield f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _shortage(resource: str, wanted: int, most_free: int) -> str:
    return f"{amount_text(resource, wanted)} wanted, at most {amount_text(resource, most_free)} free"


def summary_of(analysis: Analysis, causes: tuple[Cause, ...]) -> str:
    """Return the answer in one line, with the first two causes."""
    nodes = analysis.judgement.nodes
    if analysis.fitting:
        return f"fits on {len(analysis.fitting):,} of {len(nodes):,} nodes" if len(nodes) > 1 else f"fits on {nodes[0]}"
    several = len(nodes) > 1
    told = "; ".join(
        f"{cause.text} [{counted(cause.nodes, 'node')}]" if several and cause.nodes is not None else cause.text
        for cause in causes[:2]
    )
    if not nodes:
        return told or _NO_FIT
    return f"{'fits on none of ' + counted(len(nodes), 'node') if several else 'does not fit on ' + nodes[0]}: {told}"
