"""Plans of simulations: the cluster, the steps of its users, and its faults, all drawn from one seed before anything
runs.

A plan is plain data. That makes a failing run reproducible from a small file, and lets `cathedra.faultsim.campaigns`
remove steps one by one. Each seed enables its own subset of fault kinds, features and gates (swarm testing): a fault
that is always present hides the wrongness that shows only without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from cathedra.faultsim.sqlitefiles import available
from cathedra.releases import RELEASES, FeatureGates, UnknownGate, behaviours, parse_overrides

FORMAT: Final = 1
"""Version of the file format."""
SUPPLIES: Final = ("whole", "partitions", "shares")
"""The kinds of devices of a cluster: whole GPUs, GPUs with partitions, GPUs that claims share."""
RELEASES_WITH_CLAIMS: Final = tuple(
    release for release in RELEASES if FeatureGates.for_release(release).get("DynamicResourceAllocation", False)
)
"""Releases that serve the API version of the steps by default."""


class Setup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cluster of a plan."""

    release: str
    gates: Mapping[str, bool] = {}
    """Gates that differ from the defaults of the release."""
    nodes: int = 2
    devices: int = 2
    """GPUs on each node."""
    supply: str = "whole"
    servers: int = 1
    """API servers; several share one store."""
    sqlite: bool = False
    """True if the store of a single server is SQLite, on a simulated disk, instead of one that plays its contract."""
    schedulers: int = 1
    """Schedulers; of several one leads."""
    elected: bool = True
    """False: several schedulers work at the same time, on the same devices."""
    named: bool = False
    """True if the second scheduler takes only pods that name it, and the first one the others."""
    advisor: bool = False
    """True if an advisor runs beside the cluster."""
    reports: bool = False
    """True if the driver reports its devices in the status of claims."""
    binding: bool = False
    """True if pods are bound only after the driver has declared their devices ready."""


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action of a user, or a fault."""

    at: float
    """Seconds since the start."""
    do: str
    """Kind, one of `FAULTS` or `ACTIONS`."""
    on: str = ""
    """Name of the object, or of the part; "": all parts."""
    seconds: float = 0.0
    """Duration of a fault, or run time of a pod's containers; 0: until something stops them."""
    share: float = 0.0
    """Share of the messages that the fault concerns."""
    count: int = 0
    """Number of devices, pods or writes."""
    to: str = ""
    """The other object: release, node, or claim."""


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that decides a simulation."""

    format: int = FORMAT
    seed: int
    """Seed of the random numbers of the parts and of messages. The steps are drawn already."""
    hours: float
    setup: Setup
    steps: tuple[PlannedStep, ...] = ()


def read_plan(path: Path) -> FaultPlan:
    """Read a plan from a file.

    Raises:
        InvalidPlan: the file is no plan of this format.
    """
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=FaultPlan)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidPlan(f"{path} is no plan of a simulation: {error}") from error
    if plan.format != FORMAT:
        raise InvalidPlan(f"{path} has format {plan.format}; this version reads format {FORMAT}")
    unknown = sorted({step.do for step in plan.steps} - set(FAULTS) - set(ACTIONS))
    if unknown:
        raise InvalidPlan(f"{path} has unknown steps: {', '.join(unknown)}")
    return plan


def plan_text(plan: FaultPlan) -> bytes:
    """Return the content of a plan's file: one step per line, so that a reader can remove some by hand."""
    head = msgspec.json.encode(msgspec.structs.replace(plan, steps=()))
    lines = b",\n".join(b"  " + msgspec.json.encode(step) for step in plan.steps)
    return head[:-1] + b',\n "steps":[\n' + lines + b"\n]}\n"


FAULTS: Final = (
    "lost-requests",
    "lost-answers",
    "delays",
    "doubled-requests",
    "conflicts",
    "refusals",
    "broken-watches",
    "expired-watches",
    "slow-watches",
    "partition",
    "kill",
    "kill-at-write",
    "kill-at-step",
    "reboot",
    "clock-jump",
    "disk-full",
    "sync-errors",
    "compaction",
    "leader-loss",
    "driver-hangs",
    "driver-lies",
    "driver-fails",
    "driver-flaps",
    "device-dies",
    "checkpoint-full",
)
"""All kinds of faults."""
ACTIONS: Final = (
    "pod",
    "delete-pod",
    "force-delete-pod",
    "claim",
    "delete-claim",
    "pod-of-claim",
    "job",
    "delete-job",
    "scale",
    "gang",
    "delete-gang",
    "quota",
    "pod-with-quota",
    "taint",
    "untaint",
    "drain",
    "uncordon",
    "delete-node",
    "upgrade",
)
"""All actions of users."""
_WINDOWS: Final = frozenset(FAULTS[:10])
"""Faults of messages, which last for a time."""
_FEATURES: Final = (
    frozenset({"claim", "delete-claim", "pod-of-claim"}),
    frozenset({"job", "delete-job"}),
    frozenset({"scale"}),
    frozenset({"gang", "delete-gang"}),
    frozenset({"quota", "pod-with-quota"}),
    frozenset({"taint", "untaint"}),
    frozenset({"drain", "uncordon"}),
    frozenset({"delete-node"}),
    frozenset({"upgrade"}),
    frozenset({"force-delete-pod"}),
)
"""Actions that a seed enables together."""
GANGS: Final = "GenericWorkload"
"""The gate of pod groups with a minimum."""
GROUP_CLAIMS: Final = "DRAWorkloadResourceClaims"
"""The gate without which pods of a group get no claims."""
BINDING_GATES: Final = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
_TOGGLED: Final = (
    "DRAAdminAccess",
    "DRAPrioritizedList",
    "DRADeviceBindingConditions",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
    "DRAResourceClaimGranularStatusAuthorization",
    "DRAExtendedResource",
    "DRAListTypeAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAResourcePoolStatus",
    "ResourceHealthStatus",
)
"""Gates that a seed may switch, if the release has them unlocked."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The choices that a user takes from the seed. None: the seed decides."""

    hours: float = 6.0
    nodes: int | None = None
    release: str | None = None
    gates: str = ""
    """Feature gates, in the form of ``--feature-gates``."""
    faults: Collection[str] | None = None
    """The kinds of faults; empty: none."""
    sqlite: bool = False
    """True if the store is SQLite and there is one server."""


DEFAULTS: Final = Options()


def draw(seed: int, options: Options = DEFAULTS) -> FaultPlan:
    """Draw the plan of a seed.

    Raises:
        InvalidPlan: an option cannot be met.
    """
    random = Random(seed)
    setup = _setup(random, options)
    faults = _some(random, FAULTS, 0.3)
    if options.faults is not None:
        unknown = sorted(set(options.faults) - set(FAULTS))
        if unknown:
            raise InvalidPlan(f"unknown faults: {', '.join(unknown)}; known are: {', '.join(FAULTS)}")
        faults = tuple(kind for kind in FAULTS if kind in options.faults)
    draws = _Draws(random, setup, options.hours * 3600.0)
    steps = [*draws.actions(), *draws.faults(faults)]
    # A stable sort: of two steps at one time the one that was drawn first comes first in every run.
    steps.sort(key=lambda step: step.at)
    return FaultPlan(seed=seed, hours=options.hours, setup=setup, steps=tuple(steps))


def _some(random: Random, kinds: tuple[str, ...], share: float) -> tuple[str, ...]:
    return tuple(kind for kind in kinds if random.random() < share)


def _setup(random: Random, options: Options) -> Setup:
    releases = RELEASES_WITH_CLAIMS
    release = random.choice(releases)
    release = options.release or release
    if release not in releases:
        raise InvalidPlan(f"release {release} cannot be simulated; use one of {', '.join(releases)}")
    supply = random.choice(SUPPLIES)
    toggled = [(gate, random.random() < 0.5) for gate in _TOGGLED if random.random() < 0.2]
    gangs = random.random() < 0.7
    servers = random.choice((1, 1, 2))
    if options.sqlite:
        if not available():
            raise InvalidPlan("SQLite cannot be simulated: this Python does not link its library dynamically")
        servers = 1
    schedulers = random.choice((1, 1, 2, 2))
    elected, named = random.random() < 0.5, random.random() < 0.5
    elected = elected or schedulers == 1
    nodes = random.randint(1, 3)
    devices = random.randint(1, 3)
    gates = _gates(release, supply, toggled, gangs=gangs)
    reports, binding, advisor = random.random() < 0.3, random.random() < 0.3, random.random() < 0.3
    gates, binding = _with_options(gates, release, options, binding=binding)
    return Setup(
        release=release,
        gates=gates,
        nodes=options.nodes or nodes,
        devices=devices,
        supply=supply,
        servers=servers,
        sqlite=options.sqlite,
        schedulers=schedulers,
        elected=elected,
        named=named and not elected,
        advisor=advisor,
        reports=reports,
        binding=binding,
    )


def _with_options(
    gates: dict[str, bool], release: str, options: Options, *, binding: bool
) -> tuple[dict[str, bool], bool]:
    """Return the gates with those of the options, and True if the plan has binding conditions.

    Raises:
        InvalidPlan: the options name an unknown gate.
    """
    try:
        gates |= parse_overrides(options.gates) if options.gates else {}
        full = FeatureGates.for_release(release, gates)
    except (UnknownGate, ValueError) as error:
        raise InvalidPlan(str(error)) from error
    binding = binding and all(full.get(gate, False) for gate in BINDING_GATES)
    if binding:
        # Set, so that they stay on in the release before, where they are off by default: with them off no scheduler
        # takes a device with binding conditions.
        gates |= dict.fromkeys(BINDING_GATES, True)
    return gates, binding


def _gates(release: str, supply: str, toggled: list[tuple[str, bool]], *, gangs: bool) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    wanted = dict(toggled)
    if supply == "partitions":
        wanted["DRAPartitionableDevices"] = True
    if supply == "shares":
        wanted["DRAConsumableCapacity"] = True
    if gangs and FeatureGates.for_release(release).has(behaviours.GROUPS_SCHEDULED_AS_UNITS):
        wanted |= {GANGS: True, GROUP_CLAIMS: True}
    for gate, value in wanted.items():
        # One after the other: a gate that the release lacks or has locked is left out, and so is one whose
        # prerequisites are off.
        try:
            FeatureGates.for_release(release, gates | {gate: value})
        except (UnknownGate, ValueError):
            continue
        gates[gate] = value
    return gates


class _Draws:
    """Draws of the steps of one plan."""

    def __init__(self, random: Random, setup: Setup, length: float) -> None:
        self._random = random
        self._setup = setup
        self._length = length
        self._gates = FeatureGates.for_release(setup.release, dict(setup.gates))
        self._names = dict.fromkeys(("pod", "claim", "job", "gang"), 0)

    def actions(self) -> list[PlannedStep]:
        """Return the actions of users: bursts with quiet time between them."""
        random = self._random
        enabled = {"pod", "delete-pod"}.union(*(some for some in _FEATURES if random.random() < 0.5))
        if self._gates.get(GANGS, False) and self._gates.get(GROUP_CLAIMS, False):
            enabled.add("gang")
        else:
            enabled -= {"gang", "delete-gang"}
        if not (self._gates.get("DRADeviceTaintRules", False) and self._gates.get("DRADeviceTaints", False)):
            enabled -= {"taint", "untaint"}
        kinds = [kind for kind in ACTIONS if kind in enabled]
        steps: list[PlannedStep] = []
        for _ in range(random.randint(1, 4)):
            start = random.uniform(0, self._length * 0.9)
            for _ in range(random.randint(3, 12)):
                at = round(start + random.expovariate(1 / 20.0), 3)
                # Pods twice as often as all else: without them the other actions find nothing to act on.
                kind = "pod" if random.random() < 0.3 else random.choice(kinds)
                steps.append(self._action(min(at, self._length), kind))
        return steps

    def _action(self, at: float, kind: str) -> PlannedStep:
        random = self._random
        seconds = round(random.choice((0.0, random.uniform(1, 60), random.uniform(60, 3600))), 3)
        make: Mapping[str, Callable[[], PlannedStep]] = {
            "pod": lambda: PlannedStep(
                at=at, do=kind, on=self._new("pod"), count=random.randint(1, 2), seconds=seconds
            ),
            "claim": lambda: PlannedStep(at=at, do=kind, on=self._new("claim")),
            "pod-of-claim": lambda: PlannedStep(
                at=at, do=kind, on=self._new("pod"), to=self._known("claim"), seconds=seconds
            ),
            "pod-with-quota": lambda: PlannedStep(at=at, do=kind, on=self._new("pod"), seconds=seconds),
            "job": lambda: PlannedStep(
                at=at, do=kind, on=self._new("job"), count=random.randint(1, 4), seconds=seconds or 5.0
            ),
            "gang": lambda: PlannedStep(at=at, do=kind, on=self._new("gang"), count=random.randint(2, 5)),
            "scale": lambda: PlannedStep(at=at, do=kind, count=random.randint(0, 4)),
            "quota": lambda: PlannedStep(at=at, do=kind, count=random.randint(0, 3)),
            "upgrade": lambda: PlannedStep(at=at, do=kind, to=self._release()),
        }
        if kind in make:
            return make[kind]()
        if kind in ("drain", "uncordon", "delete-node"):
            return PlannedStep(at=at, do=kind, on=self._node())
        if kind in ("taint", "untaint"):
            return PlannedStep(at=at, do=kind, on=f"gpu-{random.randrange(self._setup.devices)}")
        return PlannedStep(at=at, do=kind, on=self._known(kind.rpartition("delete-")[2]))

    def faults(self, kinds: tuple[str, ...]) -> list[PlannedStep]:
        """Faults of the enabled kinds, most of them at about the time of an action."""
        random = self._random
        steps: list[PlannedStep] = []
        for kind in kinds:
            for _ in range(random.randint(1, 4)):
                at = round(random.uniform(0, self._length * 0.95), 3)
                steps.append(self._fault(at, kind))
        return steps

    def _fault(self, at: float, kind: str) -> PlannedStep:
        random = self._random
        seconds = round(random.choice((random.uniform(1, 30), random.uniform(30, 600))), 3)
        if kind in _WINDOWS:
            share = 1.0 if kind == "partition" else round(random.uniform(0.02, 0.5), 3)
            on = self._part() if kind == "partition" or random.random() < 0.5 else ""
            # Longer, so that a window often has messages in it.
            return PlannedStep(at=at, do=kind, on=on, seconds=seconds * 5, share=share)
        if kind == "kill":
            return PlannedStep(at=at, do=kind, on=self._part(), seconds=seconds)
        if kind == "kill-at-write":
            return PlannedStep(at=at, do=kind, on=self._part(), seconds=seconds, count=random.randint(1, 12))
        if kind == "kill-at-step":
            on = self._part(("node-", "driver-"))
            return PlannedStep(at=at, do=kind, on=on, seconds=seconds, count=random.randint(1, 12))
        if kind == "clock-jump":
            return PlannedStep(at=at, do=kind, on=self._part(), seconds=round(random.uniform(-600, 600), 3))
        if kind in ("disk-full", "sync-errors", "compaction", "leader-loss"):
            return PlannedStep(at=at, do=kind, seconds=seconds, share=round(random.uniform(0.1, 1.0), 3))
        if kind == "device-dies":
            return PlannedStep(
                at=at, do=kind, on=self._node(), to=f"gpu-{random.randrange(self._setup.devices)}", seconds=seconds
            )
        return PlannedStep(at=at, do=kind, on=self._node(), seconds=seconds, share=round(random.uniform(0.2, 1.0), 3))

    def _new(self, kind: str) -> str:
        self._names[kind] += 1
        return f"{kind}-{self._names[kind]}"

    def _known(self, kind: str) -> str:
        return f"{kind}-{self._random.randint(1, max(self._names[kind], 1))}"

    def _node(self) -> str:
        return f"node-{self._random.randrange(self._setup.nodes)}"

    def _part(self, kinds: tuple[str, ...] = ("",)) -> str:
        return self._random.choice([name for name in part_names(self._setup) if name.startswith(kinds)])

    def _release(self) -> str:
        # Older releases bind the pods of a group one by one unless a gate of theirs is on.
        needed = [behaviours.GROUPS_SCHEDULED_AS_UNITS] if self._setup.gates.get(GANGS) else []
        releases = [one for one in RELEASES_WITH_CLAIMS if all(map(FeatureGates.for_release(one).has, needed))]
        here = releases.index(self._setup.release)
        return self._random.choice(releases[max(here - 1, 0) : here + 2])


def part_names(setup: Setup) -> list[str]:
    """Return the names of all parts of a cluster."""
    names = [f"server-{number}" for number in range(setup.servers)]
    names += [f"scheduler-{number}" for number in range(setup.schedulers)]
    names += ["controllers", "advisor"] if setup.advisor else ["controllers"]
    names += [f"node-{number}" for number in range(setup.nodes)]
    names += [f"driver-{number}" for number in range(setup.nodes)]
    return names


class InvalidPlan(ValueError):
    """A plan, or an option of one, cannot be used."""
