"""Groups and versions: which kinds each release serves, deprecates and removes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cathedra.api.facts import GROUP_NAMES
from cathedra.apiserver.routes import VIRTUAL
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates, order
from cathedra.releases.served import lifetime
from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["differences", "our_kinds", "read_lifecycles"]

SUBJECT = "versions"
FOLDER = "staging/src/k8s.io/api"
FILE = "zz_generated.prerelease-lifecycle.go"
_METHOD = re.compile(r"func \(in \*(\w+)\) APILifecycle(Introduced|Deprecated|Removed)\(\).*\{\n\treturn (\d+), (\d+)")
_NO_RESOURCE = ("List", "Options")
_SUBRESOURCES = frozenset({"Eviction", "Scale", "TokenRequest"})
_NOT_SERVED = frozenset(
    {"AdmissionReview", "APIGroupDiscovery", "PodStatusResult", "RangeAllocation", "SerializedReference"}
)
"""Kinds of bodies and of storage that are no resources."""

_GROUPS = {**GROUP_NAMES, "storagemigration": "storagemigration.k8s.io"}

Kind = tuple[str, str, str]
"""Group, version, kind."""


def read_lifecycles(source: Source) -> dict[Kind, tuple[str, dict[str, str]]]:
    """Return the kinds with a limited life: file, and the releases that introduce, deprecate and remove each."""
    found: dict[Kind, tuple[str, dict[str, str]]] = {}
    for path in source.files(FOLDER):
        if not path.endswith(FILE):
            continue
        group, version = path.split("/")[-3:-1]
        for kind, event, major, minor in _METHOD.findall(source.read(path) or ""):
            if not kind.endswith(_NO_RESOURCE) and kind not in _SUBRESOURCES | _NOT_SERVED:
                named = (_GROUPS.get(group, group), version, kind)
                found.setdefault(named, (path, {}))[1][event] = f"{major}.{minor}"
    return found


def our_kinds(release: str) -> set[Kind]:
    """Return the kinds that Cathedra can serve in a release, all its gates on."""
    gates = FeatureGates.for_release(release, {"AllAlpha": True, "AllBeta": True})
    served = {
        (definition.group, version.name, definition.kind)
        for definition in all_definitions(gates)
        for version in definition.versions
    }
    for virtual in VIRTUAL:
        releases = lifetime(virtual.group, virtual.version, virtual.kind)
        if releases is None or releases.covers(release):
            served.add((virtual.group, virtual.version, virtual.kind))
    return served


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield kinds that only one side has in the release, and deprecations that differ."""
    ours = our_kinds(release)
    for (group, version, kind), (file, events) in sorted(read_lifecycles(source).items()):
        name = f"{group}/{version} {kind}"
        introduced, removed = events.get("Introduced", "1.0"), events.get("Removed", "")
        has = order(introduced) <= order(release) and not (removed and order(release) >= order(removed))
        if has != ((group, version, kind) in ours):
            yield Difference(SUBJECT, name, _serves(has), _serves(not has), file)
        elif has and (known := lifetime(group, version, kind)) is not None:
            theirs = events.get("Deprecated", "")
            if theirs and theirs != (known.deprecated or "") and order(theirs) <= order(release):
                yield Difference(SUBJECT, name, f"deprecates it in {theirs}", f"in {known.deprecated or 'none'}", file)


def _serves(has: bool) -> str:
    return "serves it" if has else "does not serve it"
