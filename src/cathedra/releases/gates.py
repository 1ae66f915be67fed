"""Feature gates of one release, as one immutable value that is passed in.

`FeatureGates` is built once per process from a release and overrides, and handed to everything that depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType

from cathedra.releases import behaviours, classic
from cathedra.releases.history import HISTORY, NEEDS, OTHERS, OTHERS_NEED, GateState, Stage
from cathedra.releases.table import DEFAULT_RELEASE, RELEASES, Behaviour, order


class UnknownGate(ValueError):
    """No gate of that name exists, or it cannot be changed."""


def state_of(gate: str, release: str) -> GateState | None:
    """Return the state of a gate in a release, or None if the release does not know it.

    Raises:
        UnknownGate: no release has it.
    """
    state = _reached(gate, release)
    return None if state is None or state.removed else state


def _reached(gate: str, release: str) -> GateState | None:
    states = HISTORY.get(gate) or OTHERS.get(gate)
    if states is None:
        raise UnknownGate(f"unrecognized feature gate: {gate}")
    reached = [state for state in states if order(state.since) <= order(release)]
    return reached[-1] if reached else None


@cache
def _states(release: str) -> Mapping[str, GateState | None]:
    """Return the state of every gate in a release; None for gates that the release does not have yet."""
    return MappingProxyType({gate: _reached(gate, release) for gate in (*HISTORY, *OTHERS)})


def parse_overrides(text: str) -> dict[str, bool]:
    """Return overrides as on the command line: ``A=true,B=false``.

    Raises:
        UnknownGate: an entry is not of that form.
    """
    overrides = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        gate, equals, value = (part.strip() for part in entry.partition("="))
        if not equals:
            raise UnknownGate(f"missing bool value for {gate}")
        if value.lower() not in ("true", "t", "1", "false", "f", "0"):
            raise UnknownGate(f"invalid value of {gate}={value}, err: it must be true or false")
        overrides[gate] = value.lower() in ("true", "t", "1")
    return overrides


class FeatureGates(Mapping[str, bool]):
    """Gate → on or off. Immutable; asking for a gate that does not exist is an error.

    A gate that the release does not have yet is off, and cannot be switched on.
    """

    __slots__ = ("_behaviours", "_enabled", "release")

    def __init__(self, enabled: Mapping[str, bool], release: str = DEFAULT_RELEASE) -> None:
        self._enabled = MappingProxyType(dict(enabled))
        self._behaviours = _behaviours_of(release)
        self.release = release

    @staticmethod
    def for_release(
        release: str = DEFAULT_RELEASE, overrides: Mapping[str, bool] = MappingProxyType({})
    ) -> FeatureGates:
        """Return the defaults of a release with some gates set otherwise; ``AllAlpha`` and ``AllBeta`` set a whole
        stage.

        Raises:
            UnknownGate: the release is unknown, an override names no gate of it, or one that is locked to its
                default, or one that is on while a gate it depends on is off.
        """
        if release not in RELEASES:
            raise UnknownGate(f"unknown Kubernetes version {release!r}: known are {RELEASES[0]} to {RELEASES[-1]}")
        reached = _states(release)
        states = {gate: None if state is None or state.removed else state for gate, state in reached.items()}
        enabled = {gate: _default(gate, release) for gate in reached}
        for stage, word in ((Stage.ALPHA, "AllAlpha"), (Stage.BETA, "AllBeta")):
            if word in overrides:
                enabled |= {gate: overrides[word] for gate, state in states.items() if state and state.stage == stage}
        for gate, on in overrides.items():
            if gate in ("AllAlpha", "AllBeta"):
                continue
            state = states.get(gate)
            if state is None:
                raise UnknownGate(f"unrecognized feature gate: {gate}")
            if state.locked and on is not state.default:
                raise UnknownGate(
                    f"cannot set feature gate {gate} to {str(on).lower()}, "
                    f"feature is locked to {str(state.default).lower()}"
                )
            enabled[gate] = on
        _check_dependencies(enabled, overrides)
        return FeatureGates(enabled, release)

    def __getitem__(self, gate: str) -> bool:
        try:
            return self._enabled[gate]
        except KeyError as error:
            raise UnknownGate(f"unrecognized feature gate: {gate}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._enabled)

    def __len__(self) -> int:
        return len(self._enabled)

    def __repr__(self) -> str:
        return f"FeatureGates.for_release({self.release!r}, {self.overrides()!r})"

    def has(self, behaviour: Behaviour) -> bool:
        """Return True if the release has a behaviour that is declared in this package."""
        return behaviour in self._behaviours

    def with_reported(self, states: Mapping[str, bool]) -> FeatureGates:
        """Return these gates with the states that a running server reports.

        The server has accepted them, so they are not validated. Gates that the release does not have, and gates
        without an effect here, are ignored.
        """
        known = {gate: on for gate, on in states.items() if gate in HISTORY and state_of(gate, self.release)}
        return FeatureGates({**self._enabled, **known}, self.release)

    def overrides(self) -> dict[str, bool]:
        """Return the gates that switch something in Cathedra and are not at their release's default."""
        return {gate: on for gate, on in self._changed() if gate in HISTORY}

    def without_effect(self) -> list[str]:
        """Return the names of the gates that are not at their default and switch nothing in Cathedra."""
        return sorted(gate for gate, _ in self._changed() if gate in OTHERS)

    def _changed(self) -> Iterator[tuple[str, bool]]:
        return ((gate, on) for gate, on in self._enabled.items() if on is not _default(gate, self.release))

    @property
    def admin_access(self) -> bool:
        """True if claims may request admin access: 1.31 had that without a gate."""
        return self["DRAAdminAccess"] or self.has(behaviours.ADMIN_ACCESS_WITHOUT_GATE)

    @property
    def gang_scheduling(self) -> bool:
        """Return True if pods of a gang are scheduled together, which 1.35 and 1.36 switch by a gate of its own."""
        own = self.has(behaviours.GANGS_WITH_WORKLOADS) or self["GangScheduling"]
        return self["GenericWorkload"] and own

    @property
    def merged_taint_rules(self) -> bool:
        """True if DeviceTaintRules are merged into slices before anything else reads these, as in 1.33 and 1.34."""
        return self.has(behaviours.TAINT_RULES_MERGED) and self["DRADeviceTaints"]


@cache
def _behaviours_of(release: str) -> frozenset[Behaviour]:
    # One set per release: `FeatureGates.has` is called per request and per pod, and comparing releases costs more.
    declared = (*vars(behaviours).values(), *vars(classic).values())
    return frozenset(one for one in declared if isinstance(one, Behaviour) and one.holds_in(release))


def _default(gate: str, release: str) -> bool:
    # A gate that was removed once its feature was locked leaves the feature on.
    state = _states(release)[gate]
    return state is not None and state.default


def _check_dependencies(enabled: Mapping[str, bool], overrides: Mapping[str, bool]) -> None:
    """Refuse a gate that was switched on by name without its dependencies.

    Defaults are quietly ineffective without them.
    """
    for gate, needs in (*NEEDS.items(), *OTHERS_NEED.items()):
        missing = [need for need in needs if not enabled[need]]
        if overrides.get(gate) and missing:
            raise UnknownGate(f"{gate} depends on disabled features: {', '.join(missing)}")
