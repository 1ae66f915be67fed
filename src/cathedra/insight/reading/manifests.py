"""Manifests that explain and simulate apply, read as ``kubectl apply`` and the API server read them.

The server decodes strictly unless the client chooses otherwise (``--validate``), so that a misspelt field is refused
instead of ignored. All problems of all manifests are reported at once, each with its file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Input, Placed, Plain, name_of, placed_objects, unpacked
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import replace
from cathedra.insight.reading.dumps import STDIN, definition_of, kind_is_read, read_object
from cathedra.insight.reading.features import GROUP
from cathedra.insight.reading.podtemplates import KNOWN, PodTemplates, job_of, templates_in
from cathedra.insight.reading.state import READ_KINDS, ClusterState, Key, Note, key_of
from cathedra.releases import state_of
from cathedra.releases.served import device_versions
from cathedra.releases.served import versions as served_in

__all__ = [
    "VALIDATIONS",
    "ManifestOptions",
    "Manifests",
    "creates_unknown_pods",
    "parse_validation",
    "read_manifests",
    "refusal_text",
    "served_check",
    "served_versions",
    "unknown_kind",
]

VALIDATIONS: Final[Mapping[str, str]] = {
    "strict": "strict",
    "true": "strict",
    "warn": "warn",
    "ignore": "ignore",
    "false": "ignore",
}
"""Values of kubectl's ``--validate`` → what is done about unknown fields."""
_NAMESPACED: Final = frozenset(kind.ref.type for kind in READ_KINDS if kind.ref.namespaced)
_NOWHERE: Final = Placed({})


def parse_validation(text: str) -> str:
    """Return «strict», «warn» or «ignore» for a value of ``--validate``.

    Raises:
        InvalidInput: it is none of kubectl's; the text is kubectl's.
    """
    if text not in VALIDATIONS:
        raise InvalidInput(
            f'invalid - validate option "{text}"; must be one of: strict (or true), warn, ignore (or false)'
        )
    return VALIDATIONS[text]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """The way in which manifests are read."""

    namespace: str = "default"
    """Namespace of objects without one."""
    templates: PodTemplates = field(default_factory=lambda: KNOWN)
    """Kinds of other projects whose pod templates are read."""
    validate: str = "strict"
    """«strict» refuses unknown fields, «warn» notes them, «ignore» drops them, as ``kubectl apply --validate``."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of manifests, notes on them, and where each was read."""

    objects: tuple[KubeObject, ...]
    notes: tuple[Note, ...]
    places: Mapping[tuple[type[KubeObject], Key], Placed]

    def place_of(self, one: KubeObject) -> Placed:
        """Return the place of an object; one without a file for objects that were passed in memory."""
        return self.places.get((type(one), key_of(one)), _NOWHERE)


def read_manifests(given: Input, state: ClusterState, options: ManifestOptions = ManifestOptions()) -> Manifests:
    """Read manifests that are applied to the cluster of ``state``.

    The pod templates of kinds of other projects are read as jobs; other kinds are left out, and noted if they create
    pods.

    Raises:
        InvalidInput: an object cannot be read, is of a version that the cluster does not serve, or has fields that its
            release does not have. Each problem is a line.
    """
    reader = _ManifestReader(state, options)
    placed = list(_placed_in(given))
    several = {one.file for one in placed if one.document > 1}
    for one in placed:
        reader.add(one if one.file in several else one._replace(document=0))
    if reader.problems:
        raise InvalidInput("\n".join(dict.fromkeys(reader.problems)))
    return Manifests(tuple(reader.objects), tuple(reader.notes), reader.places)


def refusal_text(placed: Placed, where: str, why: str, action: str = "creating") -> str:
    """Return the error of an object that the server refuses: with kubectl's words if its file is known."""
    if not placed.file:
        return f"{where}: {why}" if where else why
    document = f" (document {placed.document})" if placed.document else ""
    return f'error when {action} "{placed.file}": {why}{document}'


def _placed_in(given: Input) -> Iterator[Placed]:
    if given == STDIN:
        # kubectl's name of it in errors.
        yield from placed_objects(unpacked(sys.stdin.buffer, "standard input"), "STDIN")
    elif isinstance(given, Sequence) and given and all(isinstance(one, Path) for one in given):
        for one in given:
            yield from _placed_in(one)
    else:
        if isinstance(given, Path) and not given.exists():
            raise InvalidInput(f"{given}: there is no such file or directory")
        yield from placed_objects(given)


class _ManifestReader:
    def __init__(self, state: ClusterState, options: ManifestOptions) -> None:
        self._state, self._options = state, options
        self.objects: list[KubeObject] = []
        self.notes: list[Note] = []
        self.places: dict[tuple[type[KubeObject], Key], Placed] = {}
        self.problems: list[str] = []

    @cached_property
    def _served(self) -> Callable[[GroupVersionKind], bool]:
        return served_check(self._state)

    def add(self, placed: Placed) -> None:
        one = placed.object
        if isinstance(one, Mapping) and (missing := self._unserved(one, placed)):
            self.problems.append(missing)
            return
        try:
            decoded = read_object(one, self._state.gates.release)
        except InvalidInput as error:
            self.problems.append(f"{placed}: {error}" if placed.file else str(error))
            return
        if decoded is None:
            if isinstance(one, Mapping):
                self._add_pods_of(one, placed)
            return
        found = self._add(decoded.object, placed)
        if decoded.problems:
            self._judge(one, found, decoded.problems, placed)

    def _add(self, one: KubeObject, placed: Placed) -> KubeObject:
        metadata = one.metadata
        if type(one) in _NAMESPACED and not metadata.namespace:
            one = replace(one, metadata=replace(metadata, namespace=self._options.namespace))
        self.objects.append(one)
        self.places[type(one), key_of(one)] = placed
        return one

    def _judge(self, given: KubeObject | Plain, one: KubeObject, unknown: Sequence[str], placed: Placed) -> None:
        """Refuse or note unknown fields, as the server does for the field validation that is chosen."""
        if self._options.validate == "ignore":
            return
        # kubectl sends keys in alphabetical order, and the server reports them as they come.
        unknown = sorted(unknown)
        namespace, name = key_of(one)
        kind = type(one).__name__
        where = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        if self._options.validate == "warn":
            prefix = f"{placed}: " if placed.file else ""
            self.notes.extend(Note(where, "unknown fields", f"{prefix}{where}: {text}") for text in unknown)
            return
        why = f"strict decoding error: {', '.join(unknown)}"
        if self._state.get(type(one), name, namespace) is not None:
            self.problems.append(refusal_text(placed, where, f"{where}: {why}" if placed.file else why, "patching"))
            return
        api_version = str(given.get("apiVersion", "")) if isinstance(given, Mapping) else ""
        version = GroupVersionKind.parse(api_version, kind).version or "v1"
        self.problems.append(
            refusal_text(placed, "", f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')
        )

    def _add_pods_of(self, one: Plain, placed: Placed) -> None:
        """Add jobs with the pods of an object whose controller does not run here, and a note."""
        gvk = GroupVersionKind.parse(str(one.get("apiVersion", "")), str(one.get("kind", "")))
        made = []
        for found in templates_in(one, gvk, self._options.templates):
            decoded = read_object(job_of(found, one))
            assert decoded is not None, "jobs are read"
            made.append(self._add(decoded.object, placed))
        if made:
            self.notes.append(_read_as_jobs(one, made))
        elif creates_unknown_pods(one):
            self.notes.append(unknown_kind(one))

    def _unserved(self, one: Plain, placed: Placed) -> str:
        """Return the error of an object of a version that the cluster does not have, in kubectl's words; "" if it has
        it."""
        gvk = GroupVersionKind.parse(str(one.get("apiVersion", "")), str(one.get("kind", "")))
        if not kind_is_read(gvk.group, gvk.kind) or self._served(gvk):
            return ""
        metadata = one.get("metadata")
        known: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
        file = f' from "{placed.file}"' if placed.file else ""
        text = (
            f'resource mapping not found for name: "{known.get("name", "")}" namespace: "{known.get("namespace", "")}"'
            f'{file}: no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
        )
        definition = definition_of(gvk.group, gvk.kind)
        versions = definition.versions if definition is not None else ()
        there = [one.name for one in versions if self._served(gvk._replace(version=one.name))]
        return text + (f"; the cluster has {', '.join(there)}" if there else "")


def creates_unknown_pods(one: Plain) -> bool:
    """Return True for an object of a custom kind that has a pod template, at any depth."""
    gvk = GroupVersionKind.parse(str(one.get("apiVersion", "")), str(one.get("kind", "")))
    if definition_of(gvk.group, gvk.kind) is not None:
        return False
    pending: list[Any] = [one]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            if isinstance(value.get("containers"), list):
                return True
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return False


def _read_as_jobs(one: Plain, jobs: Sequence[KubeObject]) -> Note:
    where = f"{one.get('kind')} {name_of(one)}"
    names = ", ".join(key_of(job)[1] for job in jobs)
    return Note(where, "read as jobs", f"{where}: its controller does not run here; its pods are those of job {names}")


def unknown_kind(one: Plain) -> Note:
    """Return the note on an object of a kind that is not read and that creates pods."""
    where = f"{one.get('kind')} {name_of(one)}"
    text = (
        f"{where}: {one.get('apiVersion')} is not known here; pods that its controller would create are missing "
        "(--pod-template names where its pod template is)"
    )
    return Note(where, "unknown kind", text)


_GROUPS: Final = "scheduling.k8s.io"


def served_check(state: ClusterState) -> Callable[[GroupVersionKind], bool]:
    """Return a function that returns True for the versions of kinds that the cluster serves."""
    # start-up time: few commands read manifests
    from cathedra.apiserver.catalog import served_definitions
    from cathedra.kinds.served import all_definitions

    gates = state.gates
    served = {
        (definition.group, version.name, definition.kind)
        for definition in served_definitions(all_definitions(gates), gates, served_versions(state))
        for version in definition.versions
    }
    return lambda gvk: (gvk.group, gvk.version, gvk.kind) in served


def served_versions(state: ClusterState) -> dict[str, bool]:
    """Return the versions that a server like the cluster's has: those of the cluster, as far as they are known.

    If DynamicResourceAllocation is on, some version of its group is served, or nothing could be allocated. If
    GenericWorkload is on, pod groups are served too, unless the cluster is known to lack them: without them their pods
    would wait for ever.
    """
    served = dict(state.served)
    release = state.gates.release
    versions = device_versions(release)
    if not any(served.get(f"{GROUP}/{version}") for version in versions):
        gate = state_of("DynamicResourceAllocation", release)
        if gate is not None and not gate.default and state.gates["DynamicResourceAllocation"]:
            served |= {f"{GROUP}/{version}": True for version in versions}
    groups = [f"{_GROUPS}/{version}" for version in served_in(release, _GROUPS, "Workload")]
    # A cluster may have the gate without the API. Its jobs then fail, and those of the copy must fail too.
    lacking = bool(groups) and all(served.get(one) is False for one in groups)
    if state.gates["GenericWorkload"] and not lacking:
        served |= dict.fromkeys(groups, True)
    return served
