"""`simulate`: the state of a cluster after changes.

The scheduler and the controllers are the real ones, on a real API server in memory, and time jumps from one timer to
the next. All randomness comes from one seed, so the same input gives the same report, to the byte.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from msgspec import structs

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Input, Placed
from cathedra.api.core.core_v1 import Namespace, Node, PersistentVolumeClaim, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PODS, RESOURCECLAIMS
from cathedra.client.transport import ResourceRef
from cathedra.clock import LoopClock, run_virtual
from cathedra.cluster.parts.gctuning import uncollected
from cathedra.controllers.controller_manager import CONTROLLERS, ControllerManager, ControllerOptions
from cathedra.deadline import Interruption
from cathedra.insight.explanation.afterfilters import volume_notes
from cathedra.insight.explanation.question import WORKLOADS, validated
from cathedra.insight.reading.live import read_client
from cathedra.insight.reading.manifests import ManifestOptions, Manifests, read_manifests, refusal_text, served_versions
from cathedra.insight.reading.podtemplates import KNOWN, PodTemplates
from cathedra.insight.reading.state import READ_KINDS, ClusterState, Note, key_of, read_kind
from cathedra.insight.simulation.applying import apply_manifest
from cathedra.insight.simulation.comparing import compared
from cathedra.insight.simulation.copies import CopyCounter, Gang, with_gangs
from cathedra.insight.simulation.copying import (
    SimulatedNodes,
    SimulatedVolumes,
    StateStorage,
    StateTransport,
    complete,
)
from cathedra.insight.simulation.draining import PlannedDrain, drain, planned_drain
from cathedra.insight.simulation.plan import MOST_PODS, added_nodes, named_objects, parse_scaling, tainted, untainted
from cathedra.insight.simulation.report import Copies, Simulation
from cathedra.scheduler.judging import SimulatedScheduler, simulated_configuration
from cathedra.semantics.groupdomains import DOMAIN_ANNOTATIONS
from cathedra.semantics.preferredconstraints import PREFERRED

QUIET: Final = 25.0
"""Seconds without a change after which nothing is expected any more: longer than the scheduler's longest back-off."""
LONGEST: Final = 3600.0
"""Seconds of the cluster's time after which a simulation ends in any case."""
COPIES: Final = 100
"""Default number of copies that are tried."""
_EPOCH: Final = 1_767_225_600.0
"""Time of dumps, which do not have one."""
_IDLE: Final = frozenset(
    (
        *("node-lifecycle-controller", "root-ca-certificate-publisher-controller", "serviceaccount-controller"),
        *("clusterrole-aggregation-controller", "certificatesigningrequest-signing-controller"),
        *("certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller"),
        *("bootstrap-signer-controller", "token-cleaner-controller"),
    )
)
"""Controllers that would miss the heartbeats of nodes, or that have nothing to do with pods."""
_JOINT: Final = DOMAIN_ANNOTATIONS | {PREFERRED}
_NOTE: Final = Note(
    "podgroups",
    "joint placement",
    "annotations of JointPlacement are there: the scheduler is simulated with that plugin",
)
_SILENT: Final = logging.NullHandler()
Progress = Callable[[int, int], None]
"""Callback with the number of pods that have a node, and the number of pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChanges:
    """Changes to simulate, in the form of the command line. Without any, the pending pods of the cluster are tried."""

    apply: Input = None
    """Manifests; of kinds of other projects the pod templates in ``templates`` are read."""
    delete: Sequence[str] = ()
    """Objects to delete: «pod/NAME», «node/NAME»."""
    add_nodes: Sequence[str] = ()
    """«N=NODE», for N copies of an existing node, or «N=PROFILE»."""
    drain: Sequence[str] = ()
    """Names of nodes to drain."""
    force: bool = False
    """True to drain nodes with pods that no controller creates again, as ``kubectl drain --force`` does."""
    taint: Sequence[str] = ()
    """«NODE=KEY[=VALUE]:EFFECT», or «DRIVER/POOL/DEVICE=…» for devices; with «-» at the end a taint is dropped."""
    replicas: Sequence[str] = ()
    """Workloads to scale: «KIND/NAME=N»."""
    namespace: str = "default"
    templates: PodTemplates = field(default_factory=lambda: KNOWN)
    validate: str = "strict"
    """Treatment of unknown fields in manifests, as ``kubectl apply --validate``."""
    scheduler: str = ""
    """A KubeSchedulerConfiguration (YAML) for the simulated scheduler; "": the default."""


@dataclass(frozen=True, slots=True)
class _Plan:
    added: tuple[KubeObject, ...] = ()
    """Nodes, with their devices, and taint rules that are created, or replaced."""
    apply: tuple[KubeObject, ...] = ()
    place_of: Callable[[KubeObject], Placed] = lambda _: Placed({})
    """Returns the place of an applied object; one without a file for objects that are no file's."""
    delete: tuple[KubeObject, ...] = ()
    scale: tuple[tuple[KubeObject, int], ...] = ()
    drain: tuple[PlannedDrain, ...] = ()
    copies: int = COPIES
    notes: tuple[Note, ...] = ()
    asked: tuple[KubeObject, ...] | None = None
    """The objects of the question; None if nothing is changed."""
    counted: tuple[KubeObject | Gang, ...] = field(default=())
    """Pods, gangs and workloads of which more copies are tried."""
    scheduler: str = ""
    """Configuration of the scheduler; "": the default."""
    steps: tuple[Callable[[Client], Awaitable[None]], ...] = ()
    """Writes that are made one after the other, each when nothing changes any more."""


def simulate(
    state: ClusterState,
    changes: PlannedChanges = PlannedChanges(),
    *,
    copies: int = COPIES,
    seed: int = 0,
    progress: Progress | None = None,
    interruption: Interruption | None = None,
) -> Simulation:
    """Simulate changes of a cluster.

    Of what is applied or scaled, up to ``copies`` more are tried after nothing changes any more.
    Must not be called from a running event loop.

    Raises:
        InvalidInput: something of this has another form, does not exist, or would be refused by the API server.
        DeadlineExceeded: ``interruption`` ended it.
    """
    return _simulated(state, dataclasses.replace(_plan(state, changes), copies=copies), seed, progress, interruption)


def simulate_steps(
    state: ClusterState, steps: Iterable[Callable[[Client], Awaitable[None]]], *, seed: int = 0
) -> Simulation:
    """Simulate writes that are made one after the other, each when nothing changes any more.

    Must not be called from a running event loop.

    Raises:
        StatusError: the API server refuses one of them.
    """
    return _simulated(state, _Plan(steps=tuple(steps), asked=(), copies=0), seed, None)


def _simulated(
    state: ClusterState, plan: _Plan, seed: int, progress: Progress | None, interruption: Interruption | None = None
) -> Simulation:
    # Without a handler Python prints warnings to standard error: those of a scheduler that is only simulated.
    logging.getLogger("cathedra").addHandler(_SILENT)
    try:
        # A loop of its own in virtual time: an hour of the cluster passes in the time of its events.
        # The copy of the cluster lives until the end, and each pod leaves three objects in cycles: collections in
        # between took a tenth of the time in a cluster of 5,000 nodes, and freed nothing. The first one after the block
        # frees the copy.
        with uncollected():
            return run_virtual(_Run(complete(state, _namespaces(plan)), plan, seed, progress, interruption).run())
    except BaseExceptionGroup as failures:
        # A task group wraps the error of a task; callers are to get the error itself.
        refused, _ = failures.split((InvalidInput, StatusError))
        if refused is None:
            raise
        raise _first(refused) from failures


def _namespaces(plan: _Plan) -> set[str]:
    return {one.metadata.namespace for one in (*plan.added, *plan.apply)} - {""}


def _first(failures: BaseException) -> BaseException:
    while isinstance(failures, BaseExceptionGroup):
        failures = failures.exceptions[0]
    return failures


def _plan(state: ClusterState, changes: PlannedChanges) -> _Plan:
    """Parse the changes, and look up the objects that they name."""
    if changes.scheduler:
        try:
            simulated_configuration(volumes=True, text=changes.scheduler)
        except ValueError as problem:
            raise InvalidInput(f"the configuration of the scheduler: {problem}") from problem
    read = _applied_manifests(changes, state)
    objects = read.objects
    applied = state.including(one for one in objects if one.metadata.name)
    scaled = [(one.workload, one.replicas) for one in parse_scaling(changes.replicas, changes.namespace, applied)]
    drained = named_objects([f"node/{name}" for name in changes.drain], "", state)
    # A workload that is applied and scaled is counted once.
    subjects = {(type(one), key_of(one)): one for one in (*objects, *(one for one, _ in scaled))}
    counted = [one for one in subjects.values() if isinstance(one, (Pod, *WORKLOADS))]
    nodes = tuple(added_nodes(changes.add_nodes, state))
    deleted = tuple(named_objects(changes.delete, changes.namespace, state))
    drains = tuple(planned_drain(one.metadata.name, state, deleted, force=changes.force) for one in drained)
    dropped = untainted([word for word in changes.taint if word.endswith("-")], state)
    state = state.including((*nodes, *dropped.replaced))
    taints = tainted([word for word in changes.taint if not word.endswith("-")], state)
    return _Plan(
        added=(*nodes, *dropped.replaced, *taints),
        apply=objects,
        place_of=read.place_of,
        delete=(*deleted, *dropped.deleted),
        scale=tuple(scaled),
        drain=drains,
        notes=(*read.notes, *(note for one in drains for note in one.notes)),
        asked=tuple(counted) if _is_change(changes) else None,
        counted=tuple(with_gangs(counted, objects)),
        scheduler=changes.scheduler,
    )


def _applied_manifests(changes: PlannedChanges, state: ClusterState) -> Manifests:
    """Read and validate the manifests to be applied: they are refused before the cluster is copied, which takes
    longer."""
    if changes.apply is None:
        return Manifests((), (), {})
    options = ManifestOptions(namespace=changes.namespace, templates=changes.templates, validate=changes.validate)
    read = read_manifests(changes.apply, state, options)
    if not read.objects:
        raise InvalidInput("the manifests have no object that matters here")
    # Namespaces are kept, because their labels decide about admin access.
    made = [
        one
        for one in read.objects
        if isinstance(one, Namespace) or state.get(type(one), *reversed(key_of(one))) is None
    ]
    validated(made, state, read.place_of)
    for one in read.objects:
        _check_room(one)
        _check_namespace(one, read, state)
    return read


def _is_change(changes: PlannedChanges) -> bool:
    words = (changes.delete, changes.add_nodes, changes.drain, changes.taint, changes.replicas)
    return changes.apply is not None or any(words)


def _check_room(one: KubeObject) -> None:
    """Refuse a workload of more pods than a simulation has room for."""
    spec = getattr(one, "spec", None)
    wanted = max(getattr(spec, "replicas", None) or 0, getattr(spec, "parallelism", None) or 0)
    if wanted > MOST_PODS:
        name = f"{type(one).__name__} {one.metadata.name}"
        raise InvalidInput(f"{name} has {wanted} pods: a simulation is limited to {MOST_PODS}")


def _check_namespace(one: KubeObject, manifests: Manifests, state: ClusterState) -> None:
    """Refuse an object in a namespace that neither the cluster nor the manifests have."""
    namespace = key_of(one)[0]
    if not namespace or not state.is_known(Namespace) or state.get(Namespace, namespace) is not None:
        return
    # Dumps may have the objects of a namespace without the namespace.
    used = any(key[0] == namespace for items in state.objects.values() for key in items)
    made = any(isinstance(each, Namespace) and each.metadata.name == namespace for each in manifests.objects)
    if not used and not made:
        where = f"{type(one).__name__} {namespace}/{one.metadata.name}"
        raise InvalidInput(refusal_text(manifests.place_of(one), where, f'namespaces "{namespace}" not found'))


class _Run:
    def __init__(
        self,
        state: ClusterState,
        plan: _Plan,
        seed: int,
        progress: Progress | None,
        interruption: Interruption | None,
    ) -> None:
        self.state, self._interruption = state, interruption
        self._main: asyncio.Task[object] | None = None
        self.plan, self.seed, self.progress = plan, seed, progress
        self._joint = not plan.scheduler and self._uses_joint_placement()
        self.changed = 0.0
        self.failures: tuple[str, ...] = ()
        """Changes that the cluster refuses."""
        self.bound: set[str] = set()
        """The UIDs of pods that have a node."""

    async def run(self) -> Simulation:
        """Return the report.

        Raises:
            DeadlineExceeded: the interruption ended it.
        """
        self._main = asyncio.current_task()
        try:
            return await self._run()
        except asyncio.CancelledError:
            if self._interruption is not None:
                self._interruption.check()
            raise

    async def _run(self) -> Simulation:
        clock = LoopClock(asyncio.get_running_loop(), self.state.now or _EPOCH)
        random = Random(self.seed)
        gates = self.state.gates
        config = ServerConfig(release=gates.release, gates=gates, runtime_config=served_versions(self.state))
        server = await APIServer.open(config, clock=clock, random=random, store=StateStorage(self.state))
        self.clock = clock
        self.client = client = Client(StateTransport(server.transport(), self.state), clock=clock)
        self.informers = informers = SharedInformers(client, clock)
        scheduler, controllers = self._scheduler(random), self._controllers(random)
        nodes = SimulatedNodes(client, informers, clock)
        provisioners = SimulatedVolumes(client, informers, self.state)
        self._follow()
        began = clock.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(one.run()) for one in (informers, controllers, scheduler, nodes, provisioners)
                ]
                try:
                    # Before the changes: controllers that do not know the cluster yet would create pods a second time.
                    await informers.wait_synced()
                    await self._change()
                    await self._settle()
                    seconds = max(self.changed - began, 0.0)
                    after = await read_client(client, source=self.state.source, gates=gates)
                    after = dataclasses.replace(after, notes=())
                    # Before more copies are tried: the scheduler's state is still that of ``after``.
                    filters = scheduler.filters(after) if self._is_at(after) else None
                    found = compared(self.state, after, self.plan.asked, filters)
                    copies = await self._copies()
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            await server.close()
        failures = (*self.failures, *found.failures)
        return structs.replace(
            found, failures=failures, copies=tuple(copies), seconds=round(seconds, 3), notes=self._notes(after)
        )

    def _scheduler(self, random: Random) -> SimulatedScheduler:
        configuration = simulated_configuration(
            volumes=self.state.is_known(PersistentVolumeClaim), joint=self._joint, text=self.plan.scheduler
        )
        return SimulatedScheduler(
            self.client,
            self.informers,
            clock=self.clock,
            random=random,
            gates=self.state.gates,
            configuration=configuration,
        )

    def _controllers(self, random: Random) -> ControllerManager:
        names = [name for name in CONTROLLERS if name not in _IDLE]
        options = ControllerOptions(informers=self.informers, controllers=names)
        return ControllerManager(self.client, clock=self.clock, random=random, gates=self.state.gates, options=options)

    def _notes(self, after: ClusterState) -> tuple[Note, ...]:
        had_node = {pod.metadata.uid for pod in self.state.pods if pod.spec.node_name}
        placed = [pod for pod in after.pods if pod.spec.node_name and pod.metadata.uid not in had_node]
        joint = (_NOTE,) if self._joint else ()
        return (*self.plan.notes, *volume_notes(placed, self.state), *self.state.notes, *joint)

    def _follow(self) -> None:
        """Note changes, and count the pods that have a node."""
        for ref in self._followed():
            self.informers.of(ref).add_handler(self._note, self._note, self._note)
        self.informers.of(PODS).add_handler(
            self._count, lambda _, pod: self._count(pod), lambda pod: self.bound.discard(pod.metadata.uid)
        )

    async def _copies(self) -> list[Copies]:
        if not self.plan.copies:
            return []
        stores = self.informers.of(PODS).store, self.informers.of(RESOURCECLAIMS).store
        counter = CopyCounter(self.client, stores, self._settle, self.state, self.plan.copies)
        counted = self.plan.counted
        return [await counter.count(one, is_last=one is counted[-1]) for one in counted]

    def _followed(self) -> Iterator[ResourceRef[Any]]:
        """Yield the resources that the informers follow and `read_client` reads."""
        for kind in READ_KINDS:
            if kind.plural != "events" and (not kind.gate or self.state.gates.get(kind.gate, False)):
                yield kind.ref

    def _is_at(self, after: ClusterState) -> bool:
        """Return True if the informers have exactly the objects of ``after``."""
        # Undecodable objects count in the scheduler by what can be read of them, and in filters over a state by less.
        if after.undecodable:
            return False
        for ref in self._followed():
            there, read = self.informers.of(ref).store.by_key, after.objects.get(ref.type, {})
            if len(there) != len(read) or not all(_is_same(there.get(key), one) for key, one in read.items()):
                return False
        return True

    def _uses_joint_placement(self) -> bool:
        """Return True if a group or a claim has an annotation of JointPlacement: the cluster's scheduler is then taken
        for one with that plugin."""
        kinds = (PodGroup, CompositePodGroup, ResourceClaim, ResourceClaimTemplate)
        given = (*(one for kind in kinds for one in self.state.all(kind)), *self.plan.apply)
        return any(not _JOINT.isdisjoint(_annotations(one)) for one in given)

    def _note(self, *_: object) -> None:
        self.changed = self.clock.monotonic()
        # An informer logs what its handlers raise, and goes on: the run is cancelled from outside instead.
        if self._interruption is not None and self._main is not None and self._interruption():
            self._main.cancel()
        if self.progress is not None:
            self.progress(len(self.bound), len(self.informers.of(PODS).store))

    def _count(self, pod: Pod) -> None:
        # Counted one by one: each of ten thousand pods changes several times.
        if pod.spec.node_name:
            self.bound.add(pod.metadata.uid)

    async def _settle(self) -> None:
        """Until nothing has changed for a while."""
        end = self.clock.monotonic() + LONGEST
        self.changed = self.clock.monotonic()
        while self.clock.monotonic() < min(self.changed + QUIET, end):
            await self.clock.sleep(min(self.changed + QUIET, end) - self.clock.monotonic())

    # --- changes

    async def _change(self) -> None:
        for one in self.plan.added:
            await self._put(one)
        for one in self.plan.apply:
            await apply_manifest(self.client, one, self.plan.place_of(one))
        for workload, replicas in self.plan.scale:
            await self._scale(workload, replicas)
        for one in self.plan.delete:
            metadata = one.metadata
            ref: Any = read_kind(type(one)).ref
            resource = self.client.resource(ref, metadata.namespace if ref.namespaced else "")
            await resource.delete(metadata.name, propagation_policy="Background")
        for planned in self.plan.drain:
            self.failures += await drain(self.client, planned, clock=self.clock)
        for step in self.plan.steps:
            await step(self.client)
            await self._settle()

    async def _scale(self, workload: KubeObject, replicas: int) -> None:
        metadata = workload.metadata
        resource: Any = self.client.resource(read_kind(type(workload)).ref, metadata.namespace)
        known = await resource.get(metadata.name)  # a manifest may have changed it
        await resource.update(replace(known, spec=replace(known.spec, replicas=replicas)))

    async def _put(self, one: KubeObject) -> None:
        """Create an object, or replace all but its status."""
        metadata = one.metadata
        ref: Any = read_kind(type(one)).ref
        resource = self.client.resource(ref, metadata.namespace if ref.namespaced else "")
        try:
            try:
                known: Any = await resource.get(metadata.name)
            except StatusError as error:
                if not error.is_not_found:
                    raise
                # The API server refuses objects to be created with a UID or a version, which copies of existing ones
                # have.
                fresh: Any = replace(one, metadata=replace(metadata, uid="", resource_version=""))
                made = await resource.create(fresh)
                if isinstance(one, Node):
                    # Room and conditions are status, which creation leaves out.
                    await resource.update_status(replace(made, status=one.status))
                return
            merged = replace(metadata, uid=known.metadata.uid, resource_version=known.metadata.resource_version)
            changed: Any = replace(one, metadata=merged)
            if hasattr(known, "status"):
                # Manifests have no status. Without this line the update of a node would drop its capacity.
                changed = replace(changed, status=known.status)
            await resource.update(changed)
        except StatusError as error:
            raise InvalidInput(f"{ref.kind} {metadata.namespace}/{metadata.name}: {error}") from error


def _is_same(one: KubeObject | None, read: KubeObject) -> bool:
    """Return True if both are one version of an object, with equal contents."""
    if type(one) is type(read):
        return one is read
    # Within the process the server has a type of its own of a PodGroup, and `read_client` converts it.
    return one is not None and one.metadata is read.metadata


def _annotations(one: KubeObject) -> Mapping[str, str]:
    """Return the annotations of an object; of a template those of its claims."""
    return one.spec.metadata.annotations if isinstance(one, ResourceClaimTemplate) else one.metadata.annotations
