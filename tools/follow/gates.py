"""Feature gates: stage, default and lock in the release, and what each depends on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from cathedra.releases import GateState, Stage, UnknownGate, order, state_of
from cathedra.releases.history import HISTORY, NEEDS, OTHERS, OTHERS_NEED
from tools.follow import golang
from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["FILES", "State", "differences", "read_dependencies", "read_gates"]

SUBJECT = "gates"
LISTS = (
    "test/compatibility_lifecycle/reference/versioned_feature_list.yaml",
    "test/featuregates_linter/test_data/versioned_feature_list.yaml",
)
"""The generated list of all gates; its place has changed."""
FILES = (
    "pkg/features/kube_features.go",
    "staging/src/k8s.io/apiserver/pkg/features/kube_features.go",
    "staging/src/k8s.io/apiextensions-apiserver/pkg/features/kube_features.go",
)
_ENTRY = re.compile(r"^\t(?:\w+\.)?(\w+): \{\n((?:\t\t.*\n)*?)\t\},", re.M)
_COMPATIBLE = re.compile(r'MinCompatibilityVersion: version\.MustParse\("([\d.]+)"\)')
_SPEC = re.compile(r'MustParse\("([\d.]+)"\), Default: (true|false), PreRelease: (?:featuregate\.)?(\w+)(.*)')
_DEPENDENCIES = re.compile(r"FeatureGateDependencies = map\[[^\n]*\{\n(.*?)^\}", re.M | re.S)
_DEPENDENCY = re.compile(r"^\t(?:\w+\.)?(\w+):\s*\{([^{}]*)\},", re.M)
_STAGES = {"Alpha": Stage.ALPHA, "Beta": Stage.BETA, "GA": Stage.GA, "": Stage.GA, "Deprecated": Stage.DEPRECATED}


@dataclass(frozen=True)
class State:
    """State of a gate from a release on."""

    since: str
    stage: str
    default: bool
    locked: bool

    def __str__(self) -> str:
        locked = ", locked" if self.locked else ""
        return f"{self.stage} {'on' if self.default else 'off'}{locked} since {self.since}"


def read_gates(source: Source) -> dict[str, tuple[str, list[State]]]:
    """Return the gates of a source: name → file and states, oldest first."""
    for path in LISTS:
        text = source.read(path)
        if text is not None:
            return {
                one["name"]: (path, [_listed(spec) for spec in one["versionedSpecs"]]) for one in yaml.safe_load(text)
            }
    found = {}
    for path in FILES:
        text = source.read(path)
        names = golang.constants(text or "")
        for variable, body in _ENTRY.findall(text or ""):
            states = [
                State(_since(v, _compatible(rest)), _STAGES[stage], on == "true", "LockToDefault: true" in rest)
                for v, on, stage, rest in _SPEC.findall(body)
            ]
            if states:
                found[names.get(variable, variable)] = (path, states)
    return found


def read_dependencies(source: Source) -> dict[str, tuple[str, frozenset[str]]]:
    """Return what each gate of a source depends on: name → file and names."""
    found = {}
    for path in FILES:
        text = source.read(path) or ""
        names = golang.constants(text)
        for block in _DEPENDENCIES.findall(text):
            for variable, listed in _DEPENDENCY.findall(block):
                needed = [one.rpartition(".")[2] for one in re.findall(r"[\w.]+", re.sub(r"//.*", "", listed))]
                found[names.get(variable, variable)] = (path, frozenset(names.get(one, one) for one in needed))
    return found


def _listed(spec: dict[str, object]) -> State:
    since = _since(str(spec["version"]), str(spec.get("minCompatibilityVersion", "")))
    return State(since, _STAGES[str(spec["preRelease"])], bool(spec["default"]), bool(spec["lockToDefault"]))


def _compatible(rest: str) -> str:
    found = _COMPATIBLE.search(rest)
    return found[1] if found else ""


def _since(version: str, compatible: str) -> str:
    """Return the release from which a state holds by default.

    A part assumes by default that its peers are one release older. A state that needs a minimum compatibility version
    therefore begins one release after that version.
    """
    if not compatible:
        return version
    major, minor = compatible.split(".")
    return f"{major}.{int(minor) + 1}"


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield gates of Cathedra that differ in the release, and gates that the release brings or changes.

    A gate that Cathedra does not have is listed in the release that changes it: later releases repeat nothing.
    """
    theirs = read_gates(source)
    whole = any(source.read(path) is not None for path in (*LISTS, FILES[0]))
    for gate in sorted({*HISTORY, *OTHERS}):
        ours = _ours(gate, release)
        file, states = theirs.get(gate, (LISTS[0] if whole else "", []))
        state = _reached(states, release)
        if gate not in theirs and not whole:
            continue  # Only some of the files with gates are there.
        if (shown := _shown(state)) != (mine := _shown(ours)):
            yield Difference(SUBJECT, gate, shown, mine, file)
    for gate, (file, needed) in sorted(read_dependencies(source).items()):
        # Every DRA gate depends on DynamicResourceAllocation; gates that Cathedra lacks cannot be needed here.
        ours_of = HISTORY if gate in HISTORY else OTHERS
        wanted = (needed & ours_of.keys()) - {"DynamicResourceAllocation"}
        needs = (*NEEDS.get(gate, ()), *OTHERS_NEED.get(gate, ()))
        known = {one for one in needs if state_of(one, release)} - {"DynamicResourceAllocation"}
        if gate in ours_of and state_of(gate, release) and wanted != known:
            yield Difference(SUBJECT, f"{gate} dependencies", _listing(wanted), _listing(known), file)
    for gate in sorted(theirs.keys() - HISTORY.keys() - OTHERS.keys()):
        file, states = theirs[gate]
        state = _reached(states, release)
        if state is not None and state.since == release:
            yield Difference(SUBJECT, gate, str(state), "has no such gate", file)


def _ours(gate: str, release: str) -> GateState | None:
    try:
        return state_of(gate, release)
    except UnknownGate:
        return None


def _reached(states: list[State], release: str) -> State | None:
    reached = [state for state in states if order(state.since) <= order(release)]
    return reached[-1] if reached else None


def _listing(names: Iterable[str]) -> str:
    return "needs " + (", ".join(sorted(names)) or "none")


def _shown(state: State | GateState | None) -> str:
    if state is None:
        return "has no such gate"
    return f"{state.stage} {'on' if state.default else 'off'}{', locked' if state.locked else ''}"
