"""Pools as their slices describe them: complete, without repetition, with counters that add up; and taint rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cathedra.api.resource import Counter, DeviceTaintRule, ResourceSlice
from cathedra.insight.linting.findings import Findings, ManifestObject
from cathedra.printable import counted
from cathedra.releases import FeatureGates, behaviours

Piece = tuple[ManifestObject, ResourceSlice]


def check_slices(objects: Iterable[ManifestObject], findings: Findings) -> None:
    """Add the errors of the pools of the slices among ``objects``."""
    pools: dict[tuple[str, str], list[Piece]] = {}
    for one in objects:
        if isinstance(one.object, ResourceSlice):
            spec = one.object.spec
            pools.setdefault((spec.driver, spec.pool.name), []).append((one, one.object))
    for (driver, name), pieces in pools.items():
        newest = max(piece.spec.pool.generation for _, piece in pieces)
        current = [one for one in pieces if one[1].spec.pool.generation == newest]
        _complete(f"{driver}/{name}", current, findings)
        _repeated(current, findings)
        _node_terms(current, findings)
        _counters(current, findings, complete=len(current) == current[0][1].spec.pool.resource_slice_count)


def check_taint_rules(objects: Iterable[ManifestObject], gates: FeatureGates, findings: Findings) -> None:
    """Enter taint rules that select every device of the cluster."""
    for one in objects:
        if not isinstance(one.object, DeviceTaintRule):
            continue
        chosen = one.object.spec.device_selector
        if chosen is None and gates.has(behaviours.TAINT_RULES_NEED_SELECTOR):
            continue
        if chosen is None or not (chosen.driver or chosen.pool or chosen.device):
            effect = one.object.spec.taint.effect
            ends = ", and ends the pods that use them" if effect == "NoExecute" else ""
            why = f"the rule selects no driver, pool or device: it taints every device of the cluster{ends}"
            hint = "deviceSelector: {driver: DRIVER, pool: NODE, device: NAME}, each as far as needed"
            findings.add("taints-everything", one.manifest, "spec.deviceSelector", why, hint=hint)


def _complete(pool: str, current: list[Piece], findings: Findings) -> None:
    given, piece = current[0]
    wanted, there = piece.spec.pool.resource_slice_count, len(current)
    if there == wanted or not wanted:
        return
    why = (
        f"pool {pool} states {counted(wanted, 'slice')} in generation {piece.spec.pool.generation}, and here "
        f"{'is' if there == 1 else 'are'} {there}: devices of an incomplete pool are not allocated"
    )
    findings.add("incomplete-pool", given.manifest, "spec.pool.resourceSliceCount", why)


def _repeated(current: list[Piece], findings: Findings) -> None:
    seen: dict[str, str] = {}
    for given, piece in current:
        for number, device in enumerate(piece.spec.devices or ()):
            # The server reports duplicates within one slice.
            if seen.setdefault(device.name, given.title) != given.title:
                why = f"device {device.name} is in {seen[device.name]} as well: the pool is invalid"
                findings.add("duplicate-device", given.manifest, f"spec.devices[{number}].name", why)


def _node_terms(current: list[Piece], findings: Findings) -> None:
    """Servers before 1.38 accept several terms, and the scheduler then fails every pod that reaches the device."""
    for given, piece in current:
        for number, device in enumerate(piece.spec.devices or ()):
            terms = device.node_selector.node_selector_terms if device.node_selector is not None else None
            if terms is not None and len(terms) > 1:
                why = f"{len(terms)} terms: the scheduler cannot combine them, and fails the pod. Join them into one"
                path = f"spec.devices[{number}].nodeSelector.nodeSelectorTerms"
                findings.add("several-node-terms", given.manifest, path, why)


def _counters(current: list[Piece], findings: Findings, *, complete: bool) -> None:
    """Sets and counters against what devices consume; what is missing is certain in complete pools only."""
    sets = {one.name: one.counters for _, piece in current for one in piece.spec.shared_counters or ()}
    used: set[tuple[str, str]] = set()
    for given, path, counter_set, name, counter in _consumed(current):
        used.add((counter_set, name))
        known = sets.get(counter_set, {}).get(name)
        if known is None:
            if complete:
                why = f"the pool has no counter {name} in a set {counter_set}: the device cannot be allocated"
                findings.add("unknown-counters", given.manifest, path, why)
        elif known.amount.nanos < counter.amount.nanos:
            why = f"consumes {counter.amount} of counter {name}, and set {counter_set} has {known.amount}"
            findings.add("exceeding-counters", given.manifest, path, why)
    if not complete:
        return
    for given, piece in current:
        for number, one in enumerate(piece.spec.shared_counters or ()):
            idle = [name for name in one.counters if (one.name, name) not in used]
            if idle:
                whole = len(idle) == len(one.counters)
                what = f"counter set {one.name}" if whole else f"counter {', '.join(idle)} of set {one.name}"
                path = f"spec.sharedCounters[{number}].{'name' if whole else f'counters[{idle[0]}]'}"
                findings.add("unused-counters", given.manifest, path, f"no device consumes {what}")


def _consumed(current: list[Piece]) -> Iterator[tuple[ManifestObject, str, str, str, Counter]]:
    for given, piece in current:
        for number, device in enumerate(piece.spec.devices or ()):
            for place, use in enumerate(device.consumes_counters or ()):
                for name, counter in use.counters.items():
                    path = f"spec.devices[{number}].consumesCounters[{place}].counters[{name}]"
                    yield given, path, use.counter_set, name, counter
