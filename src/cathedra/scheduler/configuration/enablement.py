"""Plugins at each extension point: Kubernetes' default plugins with the changes of a profile.

``multiPoint`` changes all extension points at once; the list of a single point is applied after it and wins. The order
at a point is: plugins that both enable, in the order of the point; those of ``multiPoint`` alone; those of the point
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.scheduler.configuration.document import Plugins, PluginSet

DEFAULT_PLUGINS: Final[Mapping[str, int]] = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 1,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
}
"""kube-scheduler's plugins in its order, with the weights of their scores."""
VOLUME_PLUGINS: Final = frozenset({"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"})
"""Plugins on volumes. They filter only: the other extension points of VolumeBinding have no effect."""
OWN_PLUGINS: Final = frozenset({"JointPlacement", "DeviceScoring", "DeviceQuota"})
"""Plugins that kube-scheduler does not have. They are off unless a profile enables them."""
KNOWN_PLUGINS: Final = frozenset(DEFAULT_PLUGINS) | OWN_PLUGINS

_FILTERS: Final = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")
_SPREADING: Final = ("PodTopologySpread", "InterPodAffinity", "DynamicResources")
_SCORES: Final = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    *_SPREADING,
    "NodeResourcesBalancedAllocation",
)

POINTS: Final[Mapping[str, frozenset[str]]] = {
    "preEnqueue": frozenset({"SchedulingGates", "DynamicResources", "DefaultPreemption"}),
    "queueSort": frozenset({"PrioritySort"}),
    "preFilter": frozenset(
        {"NodeAffinity", "NodePorts", "NodeResourcesFit", "DeviceQuota", *_SPREADING, *VOLUME_PLUGINS}
    ),
    "filter": frozenset({*_FILTERS, *_SPREADING, *VOLUME_PLUGINS}),
    "postFilter": frozenset({"DynamicResources", "DefaultPreemption"}),
    "preScore": frozenset({*_SCORES, "VolumeBinding"}),
    "score": frozenset({*_SCORES, "ImageLocality", "VolumeBinding", "DeviceScoring"}),
    "reserve": frozenset({"DynamicResources", "VolumeBinding", "DeviceQuota", "DeviceScoring"}),
    "permit": frozenset(),
    "preBind": frozenset({"DynamicResources", "VolumeBinding"}),
    "bind": frozenset({"DefaultBinder"}),
    "postBind": frozenset(),
    # Placements of pod groups: 1.37 and 1.38 have these points.
    "placementGenerate": frozenset({"JointPlacement"}),
    "placementFeasible": frozenset(),
    "placementScore": frozenset(),
    "podGroupPostFilter": frozenset(),
}
"""Extension point → plugins that may take part there."""


_CLAIMS: Final = ("preEnqueue", "preFilter", "filter", "reserve", "preBind")


class EnablementError(ValueError):
    """A profile's plugins make no sense."""


class Enablement(msgspec.Struct, frozen=True):
    """The plugins of a profile by extension point, in order, and the weights of scores."""

    points: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int] = msgspec.field(default_factory=dict)

    def plugins(self) -> frozenset[str]:
        """Return the plugins that are enabled at any point."""
        return frozenset(name for names in self.points.values() for name in names)


def enabled(changes: Plugins, scheduler_name: str = "default-scheduler") -> Enablement:
    """Return the default plugins with ``changes``.

    Raises:
        EnablementError: a plugin does not exist or has no such extension point; or no binder is left.
    """
    everywhere = _merged(DEFAULT_PLUGINS, changes.multi_point)
    for name in everywhere:
        if name not in KNOWN_PLUGINS:
            raise EnablementError(f'multiPoint: plugin "{name}" does not exist')
    points = {point: _expanded(point, everywhere, _changes_of(changes, point)) for point in POINTS}
    # Two orders of one queue would contradict each other.
    if len(points["queueSort"]) != 1:
        raise EnablementError(f"one queue sort plugin required for profile with scheduler name {scheduler_name!r}")
    if not points["bind"]:
        raise EnablementError(f"at least one bind plugin is needed for profile with scheduler name {scheduler_name!r}")
    _check_whole(points)
    weights = {name: everywhere.get(name, 0) for name in points["score"]}
    weights |= {ref.name: ref.weight for ref in changes.score.enabled or () if ref.weight is not None}
    # Zero means "not set" in the file, and a score with weight zero would be computed for nothing.
    return Enablement(points, {name: weight or 1 for name, weight in weights.items()})


def _check_whole(points: Mapping[str, tuple[str, ...]]) -> None:
    """Plugins that cannot do one thing without the other."""
    for earlier, later in (("preFilter", "filter"), ("preScore", "score")):
        for name in points[later]:
            if name in POINTS[earlier] and name not in points[earlier]:
                raise EnablementError(
                    f'plugin "{name}" is enabled at {later} and not at {earlier}: enable or disable it at both'
                )
    # A pod whose claims were allocated and never written, or written and never reserved, would start without its
    # devices.
    there = [point for point in _CLAIMS if "DynamicResources" in points[point]]
    if there and len(there) < len(_CLAIMS):
        raise EnablementError(
            f'plugin "DynamicResources" takes part at all of {", ".join(_CLAIMS)} or at none of them, '
            f"not at {', '.join(there)} alone"
        )


def _changes_of(changes: Plugins, point: str) -> PluginSet:
    found: PluginSet = getattr(changes, "".join(f"_{c.lower()}" if c.isupper() else c for c in point))
    return found


def _merged(default: Mapping[str, int], changes: PluginSet) -> dict[str, int]:
    """Return the default set with ``changes``. What is enabled again keeps its place and gets its new weight; what is
    new comes last."""
    out = {ref.name for ref in changes.disabled or ()}
    again = {ref.name: ref.weight or 0 for ref in changes.enabled or ()}
    # "*" removes the defaults only. What the same list enables is added after that, as in kube-scheduler.
    kept = {} if "*" in out else {name: weight for name, weight in default.items() if name not in out}
    merged = {name: again.pop(name) if name in again else weight for name, weight in kept.items()}
    return merged | again


def _expanded(point: str, everywhere: Mapping[str, int], changes: PluginSet) -> tuple[str, ...]:
    out = {ref.name for ref in changes.disabled or ()}
    own = list(_checked(point, [ref.name for ref in changes.enabled or ()]))
    general = [] if "*" in out else [name for name in everywhere if name in POINTS[point] and name not in out]
    both = [name for name in own if name in general]
    return (*both, *(n for n in general if n not in own), *(n for n in own if n not in general))


def _checked(point: str, names: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name not in KNOWN_PLUGINS:
            raise EnablementError(f'{point} plugin "{name}" does not exist')
        if name not in POINTS[point]:
            raise EnablementError(f'plugin "{name}" does not extend {point} plugin')
        if name in seen:
            raise EnablementError(f'plugin "{name}" already registered as "{point}"')
        seen.add(name)
        yield name
