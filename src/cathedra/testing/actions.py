"""Actions of a test on its cluster, as coroutines on the cluster's event loop."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from cathedra.allocation.reading import Input, Plain, plain_objects
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.api.struct import to_dict
from cathedra.apiserver.custom.objects import is_custom
from cathedra.client.client import Client, ResourceClient
from cathedra.client.transport import EventType, PatchType, ResourceRef
from cathedra.cluster.cluster import RunningCluster
from cathedra.cluster.manifests import Manifest, ManifestError, ServedKinds, kinds_of, manifest_of
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import explanation_text
from cathedra.insight.reading.live import read_client
from cathedra.insight.reading.state import ClusterState
from cathedra.profiles import load_profile
from cathedra.semantics.pods import is_terminal

__all__ = ["Actions", "Condition", "CustomResource", "NotInTime"]

Condition = str | Callable[[Any], object]
"""Condition that ends a wait: as in ``kubectl wait --for`` (``condition=Ready``, ``condition=Ready=False``,
``delete``), or ``phase=Running``, or a predicate on the object."""

# pytest ends a traceback at the test's own line, as it does for assertions of its own.
__tracebackhide__ = True

MANAGER: Final = "pytest"
_DEFINITION: Final = "CustomResourceDefinition"
_PATIENCE: Final = 60.0
"""Seconds in which a definition takes effect."""
EXPLAINED: Final = 5
"""Waiting pods that are explained in a report; more are counted."""
_WIDTH: Final = 100


class CustomResource:
    """A custom resource: its metadata as of other objects, all else as plain values (``widget.spec["size"]``)."""

    def __init__(self, obj: KubeObject) -> None:
        self.kind = type(obj).__name__
        self.metadata = obj.metadata
        self._fields = to_dict(obj)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(f"this {self.kind} has no field {name!r}; it has {', '.join(self._fields)}")
        return self._fields[name]

    def __repr__(self) -> str:
        return f"{self.kind}({self._fields!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return dict(self._fields)


class NotInTime(AssertionError):
    """The condition was not met in time; the text has the last state."""


class Actions:
    """One cluster's; all methods run on its event loop."""

    def __init__(self, cluster: RunningCluster, loop: AdvanceableLoop) -> None:
        self._cluster = cluster
        self._loop = loop
        self._client = Client(cluster.server.transport(), clock=cluster.clock, field_manager=MANAGER)
        self._served: tuple[int, ServedKinds] = (-1, {})

    @property
    def _kinds(self) -> ServedKinds:
        """The kinds that the server has now, custom ones too."""
        catalog = self._cluster.server.catalog
        if self._served[0] != catalog.generation:
            self._served = (catalog.generation, kinds_of(catalog))
        return self._served[1]

    async def apply(self, manifests: Input, namespace: str) -> list[Any]:
        """Create the objects, or change them to the manifests (server-side apply).

        Definitions of custom resources take effect before the objects behind them are read.

        Raises:
            ManifestError: a document is no object that the release serves.
            StatusError: the API server refuses one.
        """
        made: list[Any] = []
        # All are decoded before the first is written, except where a definition among them has to be written first.
        read: list[tuple[Manifest, KubeObject | Plain]] = []
        for number, one in enumerate(plain_objects(manifests)):
            if any(ref.kind == _DEFINITION for (ref, _), _ in read) and not self._is_served(one):
                made += await self._write(read, namespace)
                read = []
            read.append((self._manifest(one, number), one))
        return made + await self._write(read, namespace)

    async def _write(self, read: Sequence[tuple[Manifest, KubeObject | Plain]], namespace: str) -> list[Any]:
        made = [await self._applied(manifest, one, namespace) for manifest, one in read]
        for (ref, _), one in zip((manifest for manifest, _ in read), made, strict=True):
            if ref.kind == _DEFINITION:
                await self.wait_for(f"{ref.resource}/{one.metadata.name}", "condition=Established", "", _PATIENCE)
        return made

    def _is_served(self, given: KubeObject | Plain) -> bool:
        if isinstance(given, KubeObject):
            return True
        return GroupVersionKind.parse(str(given.get("apiVersion", "")), str(given.get("kind", ""))) in self._kinds

    def _manifest(self, given: KubeObject | Plain, number: int) -> Manifest:
        if not isinstance(given, KubeObject):
            return manifest_of(given, self._kinds, f"document {number}")
        for ref in self._kinds.values():
            if ref.type is type(given):
                return ref, given
        raise ManifestError(f"document {number}: objects of type {type(given).__name__} are not served")

    async def _applied(self, manifest: Manifest, given: KubeObject | Plain, namespace: str) -> Any:
        ref, obj = manifest
        metadata = obj.metadata
        resource = self._resource(ref, metadata.namespace or namespace)
        if not metadata.name:
            return _shown(await resource.create(obj))
        gvk = GroupVersionKind(ref.group, ref.version, ref.kind)
        fields = to_dict(given) if isinstance(given, KubeObject) else given
        made = await resource.apply(metadata.name, {**fields, "apiVersion": gvk.api_version, "kind": gvk.kind})
        return _shown(made)

    async def get(self, what: str, namespace: str) -> Any:
        """Return the object that «KIND/NAME» names.

        Raises:
            ManifestError: there is no such kind.
            StatusError: there is no such object.
        """
        resource, name = self._named(what, namespace)
        return _shown(await resource.get(name))

    async def list(self, kind: str, namespace: str, labels: str) -> list[Any]:
        """Return the objects of a kind; of all namespaces with "".

        Raises:
            ManifestError: there is no such kind.
        """
        ref = self._ref(kind)
        return [_shown(one) for one in (await self._resource(ref, namespace).list(label_selector=labels)).items]

    async def delete(self, what: str, namespace: str) -> None:
        """Delete the object that «KIND/NAME» names; it may be there until its finalizers are done.

        Raises:
            ManifestError: there is no such kind.
            StatusError: there is no such object.
        """
        resource, name = self._named(what, namespace)
        await resource.delete(name)

    async def patch_status(self, what: str, status: Mapping[str, Any], namespace: str) -> Any:
        """Change the status of the object that «KIND/NAME» names (merge patch).

        Raises:
            ManifestError: there is no such kind.
            StatusError: there is no such object, or the status is refused.
        """
        resource, name = self._named(what, namespace)
        return _shown(await resource.patch(name, PatchType.MERGE, {"status": dict(status)}, subresource="status"))

    async def wait_for(self, what: str, until: Condition, namespace: str, timeout: float) -> Any:
        """Return the object as soon as the condition is met; None for one that is gone.

        Raises:
            NotInTime: it did not come to that within ``timeout`` seconds of the machine's clock.
            ManifestError: there is no such kind, or the condition is none.
        """
        resource, name = self._named(what, namespace)
        wanted = _as_function(until, self._ref(what.partition("/")[0]))
        seen: list[Any] = []
        waiting = asyncio.ensure_future(_met(resource, name, wanted, seen))
        # The cluster's own time may be advanced meanwhile, so the bound is in the machine's.
        bound = asyncio.ensure_future(_real_seconds(timeout))
        await asyncio.wait({waiting, bound}, return_when=asyncio.FIRST_COMPLETED)
        bound.cancel()
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        raise NotInTime(await self._why_not(what, until, seen[-1] if seen else None, timeout))

    async def _why_not(self, what: str, until: Condition, last: Any, seconds: float) -> str:
        wanted = until if isinstance(until, str) else getattr(until, "__name__", "as wanted")
        lines = [f"{what} is not {wanted} after {seconds:g} s; its status is {_status(last)}"]
        if last is not None and getattr(getattr(last, "spec", None), "node_name", None) == "":
            lines.append(await self.waiting())
        return "\n".join(lines)

    async def advance(self, seconds: float) -> None:
        """Let time pass for the cluster."""
        await self._loop.advance(seconds)

    async def add_nodes(self, count: int, profile: str) -> tuple[str, ...]:
        """Start more nodes, of a profile or like those that there are; their names.

        Raises:
            ProfileError: there is no such profile.
        """
        chosen = load_profile(profile) if profile else None
        taken = {node.metadata.name for node in await self.list("nodes", "", "")}
        base = "node" if chosen is None else chosen.name
        free = (name for number in range(count + len(taken)) if (name := f"{base}-{number}") not in taken)
        names = tuple(islice(free, count))
        await asyncio.gather(*(self._cluster.add_node(name, chosen) for name in names))
        return names

    async def silence_node(self, name: str) -> None:
        """Stop a node's agent and drivers as a loss of power does.

        Raises:
            KeyError: no node of that name runs.
        """
        await self._cluster.silence_node(name)

    async def state(self) -> ClusterState:
        """Return the whole state, as the tools of `cathedra.insight` read it."""
        return await read_client(self._client, source="this test's cluster", gates=self._cluster.gates)

    async def waiting(self) -> str:
        """Return the reasons why pods wait, from `explain`; "" if none does."""
        state = await self.state()
        pods = [pod for pod in state.pods if not pod.spec.node_name and not is_terminal(pod)]
        told = [
            explanation_text(explain(state, f"pod/{pod.metadata.name}", namespace=pod.metadata.namespace), _WIDTH)
            for pod in pods[:EXPLAINED]
        ]
        if len(pods) > EXPLAINED:
            told.append(f"{len(pods) - EXPLAINED} more pods wait")
        return "\n\n".join(told)

    def _named(self, what: str, namespace: str) -> tuple[ResourceClient[Any], str]:
        kind, slash, name = what.partition("/")
        if not slash or not name:
            raise ManifestError(f"{what!r} is not of the form KIND/NAME, as pod/train")
        return self._resource(self._ref(kind), namespace), name

    def _resource(self, ref: ResourceRef[Any], namespace: str) -> ResourceClient[Any]:
        return self._client.resource(ref, namespace if ref.namespaced else "")

    def _ref(self, word: str) -> ResourceRef[Any]:
        catalog = self._cluster.server.catalog
        for one in catalog:
            names = (one.plural, one.singular, one.kind.lower(), *one.short_names)
            if word.lower() not in (*names, *(f"{name}.{one.group}" for name in names[:2])):
                continue
            served = [version.name for version in one.versions if catalog.route(one.group, version.name, one.plural)]
            if served:
                return self._kinds[one.gvk(min(served, key=_stability))]
        raise ManifestError(f"there is no kind {word!r}")


async def _met(resource: ResourceClient[Any], name: str, wanted: Callable[[Any], object], seen: list[Any]) -> Any:
    """Wait for the object; every state of it is appended to ``seen``."""
    by_name = f"metadata.name={name}"
    while True:
        page = await resource.list(field_selector=by_name)
        for obj in map(_shown, page.items or (None,)):
            seen.append(obj)
            if wanted(obj):
                return obj
        try:
            async with resource.watch(
                field_selector=by_name, resource_version=page.resource_version, bookmarks=False
            ) as events:
                async for event in events:
                    if event.type is EventType.BOOKMARK:
                        continue
                    obj = None if event.type is EventType.DELETED else _shown(event.object)
                    seen.append(obj)
                    if wanted(obj):
                        return obj
        except StatusError as error:
            if not error.is_expired:
                raise


def _shown(obj: Any) -> Any:
    """Return the object as tests see it: the struct of a custom kind has no names that a test could write."""
    return CustomResource(obj) if obj is not None and is_custom(type(obj)) else obj


def _stability(version: str) -> tuple[bool, bool]:
    return "alpha" in version, "beta" in version


def _as_function(until: Condition, ref: ResourceRef[Any]) -> Callable[[Any], object]:
    if not isinstance(until, str):
        return lambda obj: obj is not None and until(obj)
    if until == "delete":
        return lambda obj: obj is None
    kind, _, rest = until.partition("=")
    name, _, value = rest.partition("=")
    if kind == "condition" and name:
        return lambda obj: obj is not None and _condition(obj, name) == (value or "True").lower()
    if kind == "phase" and name and not value:
        _check_phase(name, ref)
        return lambda obj: obj is not None and _field(getattr(obj, "status", None), "phase") == name
    raise ManifestError(f"{until!r} is none of condition=NAME[=VALUE], phase=NAME, delete")


_PHASES: Final = {
    "Pod": ("Pending", "Running", "Succeeded", "Failed", "Unknown"),
    "Namespace": ("Active", "Terminating"),
    "PersistentVolume": ("Pending", "Available", "Bound", "Released", "Failed"),
    "PersistentVolumeClaim": ("Pending", "Bound", "Lost"),
}
"""The phases of built-in kinds; custom kinds may have any."""


def _check_phase(name: str, ref: ResourceRef[Any]) -> None:
    """Refuse a phase that objects of the kind never have.

    Raises:
        ManifestError: it is none of theirs.
    """
    # Names of built-in groups have no dot, or end in k8s.io; apps and batch have no phases.
    if ref.group.endswith(".k8s.io") or "." not in ref.group:
        known = _PHASES.get(ref.kind, ())
        if name not in known:
            there = f"its phases are {', '.join(known)}" if known else "it has none; wait for a condition"
            raise ManifestError(f"a {ref.kind} is never in phase {name!r}: {there}")


def _field(holder: Any, name: str) -> Any:
    """Return a field of a struct, or of the plain values of a custom resource."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _condition(obj: Any, name: str) -> str:
    for one in _field(getattr(obj, "status", None), "conditions") or ():
        if str(_field(one, "type")).lower() == name.lower():
            return str(_field(one, "status")).lower()
    return ""


def _status(obj: Any) -> str:
    if obj is None:
        return "unknown: it is not there"
    values = obj.to_dict() if isinstance(obj, CustomResource) else to_dict(obj)
    return str(values.get("status") or "empty")


async def _real_seconds(seconds: float) -> None:
    """Wait in the machine's time, whatever the loop's is."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    timer = threading.Timer(seconds, loop.call_soon_threadsafe, [ended.set])
    timer.daemon = True
    timer.start()
    try:
        await ended.wait()
    finally:
        timer.cancel()


# Event loop in real time that can be advanced: sockets work as usual, and an hour passes when a test advances the
# clock.
#
# Time moves from one timer to the next, and only when nothing is ready to run, so timers fire in their order (compare
# `cathedra.clock.VirtualTimeLoop`, which never waits and therefore serves no sockets).


class _AdvancingSelector(selectors.DefaultSelector):
    """Selector that skips idle time by advancing the clock while there is time to skip; else it waits as usual."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = 0.0
        self.left = 0.0
        self.hurries = False
        self.arrived: asyncio.Future[None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 or (self.arrived is None and not (self.hurries and timeout)):
            return super().select(timeout)
        ready = super().select(0)
        if ready:
            return ready
        if self.arrived is None:
            self.moved += timeout or 0.0
            return ready
        if self.left <= 0:
            # All timers that were due have run.
            self.arrived.set_result(None)
            self.arrived = None
            return ready
        step = self.left if timeout is None else min(self.left, timeout)
        self.moved += step
        self.left -= step
        return ready


class AdvanceableLoop(asyncio.SelectorEventLoop):
    """Event loop whose time is the machine's plus what `advance` has added."""

    def __init__(self) -> None:
        self._advancing = _AdvancingSelector()
        super().__init__(self._advancing)

    def time(self) -> float:
        """Return the seconds of the machine's monotonic clock and of those that were added."""
        return super().time() + self._advancing.moved

    def hurry(self) -> None:
        """Wait for no timer any more: what is left to do, as stopping, should take no time."""
        self._advancing.hurries = True

    async def advance(self, seconds: float) -> None:
        """Advance the clock by ``seconds``; return when all timers due by then have run.

        Raises:
            ValueError: time does not run backwards.
            RuntimeError: it is being advanced already.
        """
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds}")
        if self._advancing.arrived is not None:
            raise RuntimeError("the time of this cluster is being advanced already")
        self._advancing.left = seconds
        self._advancing.arrived = self.create_future()
        await self._advancing.arrived
