"""Changes of a simulation, from the command line: manifests, and words as ``deployment/web=5``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Final

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import Node, NodeStatus, Taint
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    DeviceClass,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from cathedra.api.struct import replace
from cathedra.driver.publishing.counterslices import counters_at_devices
from cathedra.driver.publishing.layout import lay_out
from cathedra.drivers.profiled import ProfiledDriver
from cathedra.insight.explanation.explain import KINDS
from cathedra.insight.explanation.question import find_workload
from cathedra.insight.reading.state import ClusterState
from cathedra.profiles import HardwareProfile, ProfileError, load_profile, node_capacity, node_labels
from cathedra.releases import DEFAULT_RELEASE, behaviours

EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule", "None")
MOST_PODS: Final = 150_000
"""Pods of a workload: as many as Kubernetes supports in a cluster."""
MOST_NODES: Final = 50_000
"""Nodes that are added: ten times as many as Kubernetes supports."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """A workload and how many replicas it gets."""

    workload: KubeObject
    replicas: int


def named_objects(words: Iterable[str], namespace: str, state: ClusterState) -> Iterator[KubeObject]:
    """Yield the objects that «KIND/NAME» words name; «node/NAME» too.

    Raises:
        InvalidInput: a word has another form, or there is no such object.
    """
    for word in words:
        kind, slash, name = word.partition("/")
        if slash and kind in ("node", "nodes", "no"):
            yield _node(name, state)
            continue
        known = KINDS.get(kind.lower())
        if not slash or known is None or not name:
            raise InvalidInput(f"{word!r} is not of the form KIND/NAME, as pod/train-0 or node/node-1")
        yield find_workload(known, name, namespace, state)


def parse_scaling(words: Iterable[str], namespace: str, state: ClusterState) -> Iterator[Scaling]:
    """Yield the workloads and numbers that «KIND/NAME=N» words name.

    Raises:
        InvalidInput: a word has another form, or there is no such workload.
    """
    for word in words:
        what, equals, number = word.rpartition("=")
        if not equals or not number.isdecimal():
            raise InvalidInput(f"--replicas {word!r} is not of the form KIND/NAME=N, as deployment/web=5")
        (found,) = named_objects([what], namespace, state)
        if not hasattr(getattr(found, "spec", None), "replicas"):
            raise InvalidInput(f"--replicas {word!r}: a {type(found).__name__.lower()} has no replicas")
        if len(number) > len(str(MOST_PODS)) or int(number) > MOST_PODS:
            raise InvalidInput(f"--replicas {word[:80]!r}: a simulation is limited to {MOST_PODS} pods")
        yield Scaling(found, int(number))


def added_nodes(words: Iterable[str], state: ClusterState) -> Iterator[KubeObject]:
    """Yield the nodes, with their slices, for «N=NODE» and «N=PROFILE»: N copies of an existing node, or of a profile,
    with its device classes unless the cluster has them.

    Raises:
        InvalidInput: a word has another form, or there is neither such a node nor such a profile.
    """
    existing = {node.metadata.name for node in state.nodes}
    taken = set(existing)
    for word in words:
        number, equals, name = word.partition("=")
        if not equals or not number.isdecimal() or not number.strip("0"):
            raise InvalidInput(f"--add-nodes {word!r} is not of the form N=NODE or N=PROFILE, as 4=node-0 or 4=h100-8")
        if len(number) > len(str(MOST_NODES)) or int(number) > MOST_NODES:
            raise InvalidInput(f"--add-nodes {word[:80]!r}: a simulation is limited to {MOST_NODES} nodes")
        profile = None if name in existing else _profile(name, state)
        base = f"{name}-new" if profile is None else profile.name
        names = list(islice((new for new in map(f"{base}-{{}}".format, count(1)) if new not in taken), int(number)))
        taken.update(names)
        if profile is not None:
            yield from (one for one in profile.device_classes if state.get(DeviceClass, one.metadata.name) is None)
            for new in names:
                yield from profiled_node(profile, new, state.gates.release)
            continue
        slices = [piece for piece in state.all(ResourceSlice) if piece.spec.node_name == name]
        for new in names:
            yield from copied_node(_node(name, state), slices, new)


def copied_node(node: Node, slices: Iterable[ResourceSlice], new: str) -> Iterator[KubeObject]:
    """Yield a node of another name with the same labels, room, taints and devices."""
    old = node.metadata.name
    labels = {key: new if value == old else value for key, value in (node.metadata.labels or {}).items()}
    metadata = ObjectMeta(name=new, labels=labels, annotations=node.metadata.annotations)
    yield replace(node, metadata=metadata, spec=replace(node.spec, unschedulable=False))
    for number, piece in enumerate(slices):
        pool = piece.spec.pool
        name = pool.name.replace(old, new) if old in pool.name else f"{pool.name}-{new}"
        yield replace(
            piece,
            metadata=ObjectMeta(name=f"{new}-{number}"),
            spec=replace(piece.spec, node_name=new, pool=replace(pool, name=name)),
        )


def profiled_node(profile: HardwareProfile, new: str, release: str = DEFAULT_RELEASE) -> Iterator[KubeObject]:
    """Yield a node of a profile, with the slices that its drivers would publish to a server of the release."""
    apart = behaviours.COUNTERS_IN_OWN_SLICES.holds_in(release)
    capacity = {name: Quantity(amount) for name, amount in {"pods": "110", **node_capacity(profile)}.items()}
    yield Node(
        metadata=ObjectMeta(name=new, labels={"kubernetes.io/hostname": new, **node_labels(profile, new)}),
        status=NodeStatus(capacity=capacity, allocatable=capacity),
    )
    for driver in profile.drivers:
        one = ProfiledDriver(profile, driver)
        one.node_name = new
        for laid_out in lay_out(one.resources(), new).values():
            pool = laid_out if apart else counters_at_devices(laid_out)
            for number, piece in enumerate(pool.slices):
                where = ResourcePool(name=pool.name, generation=1, resource_slice_count=len(pool.slices))
                yield ResourceSlice(
                    metadata=ObjectMeta(name=f"{new}-{driver}-{number}"),
                    spec=ResourceSliceSpec(
                        driver=driver,
                        node_name=new,
                        pool=where,
                        devices=piece.devices,
                        shared_counters=piece.shared_counters,
                    ),
                )


def tainted(words: Iterable[str], state: ClusterState) -> Iterator[KubeObject]:
    """Yield the objects for «NODE=KEY[=VALUE]:EFFECT» and «DRIVER/POOL[/DEVICE]=KEY[=VALUE]:EFFECT»: nodes with a
    further
    taint, and rules that taint devices.

    Raises:
        InvalidInput: a word has another form, there is no such node, pool or device, or no device taints.
    """
    for number, word in enumerate(words):
        what, equals, rest = word.partition("=")
        body, colon, effect = rest.rpartition(":")
        key, _, value = body.partition("=")
        if not equals or not colon or not key or effect not in EFFECTS:
            raise InvalidInput(
                f"--taint {word!r} is not of the form NODE=KEY[=VALUE]:EFFECT "
                "or DRIVER/POOL[/DEVICE]=KEY[=VALUE]:EFFECT"
            )
        if "/" in what and not state.gates["DRADeviceTaints"]:
            text = f"the cluster has no device taints: the gate DRADeviceTaints of {state.gates.release} is off"
            raise InvalidInput(f"--taint {word!r}: {text}")
        if "/" not in what:
            node = _node(what, state)
            taints = (*node.spec.taints, Taint(key=key, value=value, effect=effect))
            yield replace(node, spec=replace(node.spec, taints=taints))
            continue
        selector = _selector(word, what, state)
        spec = DeviceTaintRuleSpec(device_selector=selector, taint=DeviceTaint(key=key, value=value, effect=effect))
        yield DeviceTaintRule(metadata=ObjectMeta(name=f"simulated-{number}"), spec=spec)


@dataclass(frozen=True, slots=True)
class DroppedTaints:
    """Objects without taints that they had: nodes and slices that are replaced, and rules that are deleted."""

    replaced: tuple[KubeObject, ...] = ()
    deleted: tuple[KubeObject, ...] = ()


def untainted(words: Iterable[str], state: ClusterState) -> DroppedTaints:
    """Return the changes for «WHAT=KEY[=VALUE][:EFFECT]-», in the form of ``kubectl taint`` with a hyphen at the end.

    The taints of a device are those in its slice, and the rules that select exactly this device or pool.

    Raises:
        InvalidInput: a word has another form, or there is no such taint.
    """
    replaced: dict[tuple[type[KubeObject], str], KubeObject] = {}
    deleted: list[KubeObject] = []
    for word in words:
        what, equals, rest = word.removesuffix("-").partition("=")
        body, _, effect = rest.partition(":") if ":" in rest else (rest, "", "")
        key, _, value = body.partition("=")
        if not equals or not key or effect not in ("", *EFFECTS):
            raise InvalidInput(
                f"--taint {word!r} is not of the form WHAT=KEY[=VALUE][:EFFECT]- for a taint to be dropped"
            )
        dropped = partial(_is_taint, key, value, effect)
        if "/" not in what:
            found: list[KubeObject] = [_without_node_taints(_node(what, state), dropped)]
            rules: list[KubeObject] = []
        else:
            selector = _selector(word, what, state)
            found = [_without_device_taints(one, selector, dropped) for one in _slices(selector, state, replaced)]
            rules = [
                one
                for one in state.all(DeviceTaintRule)
                if one.spec.device_selector == selector and dropped(one.spec.taint)
            ]
        changed = [one for one in found if one != state.get(type(one), one.metadata.name)]
        if not changed and not rules:
            raise InvalidInput(f"--taint {word!r}: {what} has no such taint")
        replaced.update({(type(one), one.metadata.name): one for one in changed})
        deleted += rules
    return DroppedTaints(tuple(replaced.values()), tuple(deleted))


def _is_taint(key: str, value: str, effect: str, taint: Taint | DeviceTaint) -> bool:
    return taint.key == key and value in ("", taint.value) and effect in ("", taint.effect)


def _without_node_taints(node: Node, dropped: Callable[[Taint], bool]) -> Node:
    return replace(node, spec=replace(node.spec, taints=tuple(one for one in node.spec.taints if not dropped(one))))


def _slices(
    selector: DeviceTaintSelector, state: ClusterState, replaced: Mapping[tuple[type[KubeObject], str], KubeObject]
) -> Iterator[ResourceSlice]:
    """Yield the slices of a pool, as earlier words have changed them."""
    for piece in state.all(ResourceSlice):
        if (piece.spec.driver, piece.spec.pool.name) == (selector.driver, selector.pool):
            known = replaced.get((ResourceSlice, piece.metadata.name))
            yield known if isinstance(known, ResourceSlice) else piece


def _without_device_taints(
    piece: ResourceSlice, selector: DeviceTaintSelector, dropped: Callable[[DeviceTaint], bool]
) -> ResourceSlice:
    devices = tuple(
        replace(one, taints=tuple(taint for taint in one.taints if not dropped(taint)))
        if selector.device in (None, one.name)
        else one
        for one in piece.spec.devices or ()
    )
    return replace(piece, spec=replace(piece.spec, devices=devices))


def _selector(word: str, what: str, state: ClusterState) -> DeviceTaintSelector:
    """Return the selector of a pool, or of a device in one. Names of pools may contain slashes, those of devices not.

    Raises:
        InvalidInput: there is no such pool or device.
    """
    driver, _, rest = what.partition("/")
    pools: dict[str, list[ResourceSlice]] = {}
    for piece in state.all(ResourceSlice):
        if piece.spec.driver == driver:
            pools.setdefault(piece.spec.pool.name, []).append(piece)
    if rest in pools:
        return DeviceTaintSelector(driver=driver, pool=rest)
    pool, _, device = rest.rpartition("/")
    if any(one.name == device for piece in pools.get(pool, ()) for one in piece.spec.devices or ()):
        return DeviceTaintSelector(driver=driver, pool=pool, device=device)
    if not state.is_known(ResourceSlice):
        raise InvalidInput(f"--taint {word!r}: which devices exist is not known")
    if pool in pools:
        raise InvalidInput(f"--taint {word!r}: pool {pool} of {driver} has no device {device!r}")
    known = sorted(pools) or sorted({piece.spec.driver for piece in state.all(ResourceSlice)})
    noun = f"{driver} has no pool {rest!r}" if pools else f"no driver {driver!r} publishes devices"
    some = f"; there are {', '.join(known[:5])}{' …' if len(known) > 5 else ''}" if known else ""
    raise InvalidInput(f"--taint {word!r}: {noun}{some}")


def _profile(name: str, state: ClusterState) -> HardwareProfile:
    try:
        return load_profile(name)
    except ProfileError as error:
        some = ", ".join(node.metadata.name for node in state.nodes[:5]) or "none"
        raise InvalidInput(f"there is no node {name!r} in {state.source}, only {some}; and {error}") from error


def _node(name: str, state: ClusterState) -> Node:
    for node in state.nodes:
        if node.metadata.name == name:
            return node
    some = ", ".join(node.metadata.name for node in state.nodes[:5])
    raise InvalidInput(f"there is no node {name!r} in {state.source}" + (f"; there are {some}" if some else ""))
