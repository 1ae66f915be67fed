"""Dumps of clusters: YAML and JSON with Lists and several documents, directories, archives, standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput, UndecodableInput
from cathedra.allocation.reading import Input, Plain, decode_plain, decoded_object, name_of, plain_objects, unpacked
from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.decoding import Decoded, DecodeError
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import encode, reshape
from cathedra.api.undecodable import Undecodable, identify
from cathedra.insight.reading.features import GROUP, NO_GATES, RequestedRelease, dumped_gates
from cathedra.insight.reading.podtemplates import KNOWN, PodTemplates, job_of, templates_in
from cathedra.insight.reading.state import READ_KINDS, ClusterState, Note, key_of, note_on, with_one_device_note
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import DEFAULT_RELEASE, RELEASES, FeatureGates

__all__ = [
    "COMMAND",
    "DumpReader",
    "creates_unknown_pods",
    "definition_of",
    "read_dump",
    "read_manifests",
    "read_object",
    "unknown_kind",
]

COMMAND: Final = (
    "kubectl get nodes,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,devicetaintrules "
    "-A -o json"
)
"""Command that makes a dump with everything that the tools read."""
STDIN: Final = Path("-")
_NAMED: Final = 5
"""Unknown fields that are named for each object; more are counted."""


def read_dump(given: Input, *, release: str = "", feature_gates: Mapping[str, bool] = NO_GATES) -> ClusterState:
    """The state that a dump holds; `pathlib.Path("-")` is standard input.

    Unknown fields, which releases after 1.37 may have, are named in a note, and so are objects that cannot be decoded;
    kinds of which the dump has no object are counted as not known. Without ``release``, that of the newest kubelet is
    assumed, and a note names it. ``feature_gates`` are those that differ from its defaults.

    Raises:
        InvalidInput: something in it is no Kubernetes object.
        UnknownGate: the release or a gate is not known.
    """
    reader = DumpReader(strict=False)
    reader.add(given)
    return reader.state(RequestedRelease(release, feature_gates))


def read_manifests(
    given: Input,
    served: Callable[[GroupVersionKind], bool] | None = None,
    templates: PodTemplates = KNOWN,
) -> tuple[tuple[KubeObject, ...], tuple[Note, ...]]:
    """Return the objects of manifests, and notes on fields that no release has, and on kinds that are not read.

    The pod templates of kinds in ``templates`` are read as jobs; other kinds are left out.

    Raises:
        InvalidInput: something in it is no Kubernetes object, has a field of the wrong type, or is of a version that is
            not ``served``.
    """
    reader = DumpReader(strict=True, served=served, templates=templates)
    reader.add(given)
    return tuple(reader.objects), tuple(reader.notes)


class DumpReader:
    """Collects the objects of a dump from several inputs, or pages of a server's answers."""

    def __init__(
        self,
        *,
        strict: bool,
        served: Callable[[GroupVersionKind], bool] | None = None,
        templates: PodTemplates | None = None,
    ) -> None:
        """``strict``: an object with a field of the wrong type is an error; otherwise it is noted, and left out.
        ``served`` returns False for versions that are refused.

        ``templates``: kinds whose pod templates are read; None for a dump, which has their pods.
        """
        self._strict, self._served = strict, served
        self._templates: PodTemplates = templates or {}
        self.undecodable: list[Undecodable] = []
        self.objects: list[KubeObject] = []
        self.notes: list[Note] = []
        self.sources: list[str] = []
        self.api_versions: set[str] = set()
        """The ``apiVersion`` of every plain object that was read."""
        self._listed: set[str] = set()

    def add(self, given: Input) -> None:
        """Read one input more.

        Raises:
            InvalidInput: something in it is no Kubernetes object, or, of strict readers, has a field of the wrong type.
        """
        for one in self._read_input(given):
            if self._served is not None and isinstance(one, Mapping):
                _refuse_unserved(one, self._served)
            try:
                decoded = read_object(one)
            except UndecodableInput as error:
                if self._strict or isinstance(one, KubeObject) or not self._leave_out(one, error):
                    raise
                continue
            if decoded is None:
                if self._strict and isinstance(one, Mapping):
                    self._add_pods_of(one)
                continue
            self.objects.append(decoded.object)
            if isinstance(one, Mapping):
                self.api_versions.add(str(one.get("apiVersion", "")))
            if decoded.problems:
                self.notes.append(_unknown_fields(decoded.object, decoded.problems))

    def _add_pods_of(self, one: Plain) -> None:
        """Add jobs with the pods of an object whose controller does not run here, and a note."""
        gvk = GroupVersionKind.parse(str(one.get("apiVersion", "")), str(one.get("kind", "")))
        made = []
        for found in templates_in(one, gvk, self._templates):
            decoded = read_object(job_of(found, one))
            assert decoded is not None, "jobs are read"
            made.append(decoded.object)
        self.objects.extend(made)
        if made:
            self.notes.append(_read_as_jobs(one, made))
        elif creates_unknown_pods(one):
            self.notes.append(unknown_kind(one))

    def state(self, requested: RequestedRelease) -> ClusterState:
        """Return the state that was read.

        Raises:
            UnknownGate: the release or a gate is not known.
        """
        source = ", ".join(self.sources) or "objects"
        nodes = [one for one in self.objects if isinstance(one, Node)]
        types = {type(one) for one in self.objects}
        resources = {kind.plural for kind in READ_KINDS if kind.ref.type in types}
        gates, assumed = dumped_gates(requested, nodes, self.api_versions, resources)
        # A server had them, whatever the defaults of the release are.
        served = dict.fromkeys((one for one in self.api_versions if one.startswith(f"{GROUP}/")), True)
        state = ClusterState.of(self.objects, source, gates=gates, undecodable=tuple(self.undecodable), served=served)
        missing = [
            # A kind of which the dump has neither an object nor an empty list was not dumped: nothing is known about
            # it.
            kind
            for kind in READ_KINDS
            if kind.ref.type not in state.objects and kind.ref.kind not in self._listed
        ]
        absent = tuple(
            Note(kind.plural, "absent", f"there are no {kind.plural} in {source}: {kind.consequence}")
            for kind in missing
            if kind.consequence
        )
        notes = (*with_one_device_note((*absent, *self.notes), source), *assumed)
        return replace(state, notes=notes, unknown=frozenset(kind.ref.type for kind in missing))

    def _leave_out(self, one: Plain, error: UndecodableInput) -> bool:
        """Note an object that cannot be decoded. Return False if it has no name to be noted by."""
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        what = identify(str(one["kind"]), encode(dict(one)), cause)
        if what.name:
            self._listed.add(what.kind)
            self.undecodable.append(what)
            self.notes.append(note_on(what))
        return bool(what.name)

    def _read_input(self, given: Input) -> Iterator[KubeObject | Plain]:
        if given == STDIN:
            self.sources.append("standard input")
            yield from plain_objects(unpacked(sys.stdin.buffer, "standard input"), "standard input")
            return
        if isinstance(given, Path):
            self.sources.append(str(given))
            if not given.exists():
                raise InvalidInput(f"{given}: there is no such file or directory")
        if isinstance(given, Mapping):
            self._note_list(given)
        if isinstance(given, Sequence) and given and all(isinstance(one, Path) for one in given):
            for one in given:
                yield from self._read_input(one)
            return
        # The folder of a support bundle has files of all kinds, and one damaged file must not hide the others.
        yield from plain_objects(given, skipped=None if self._strict else self._skip)

    def _skip(self, why: str) -> None:
        self.notes.append(Note("files", "unreadable", f"{why}; skipped"))

    def _note_list(self, given: Plain) -> None:
        """Record a List without items: there are no objects of its kind."""
        kind = str(given.get("kind", ""))
        if kind.endswith("List"):
            self._listed.add(kind.removesuffix("List"))


def _refuse_unserved(one: Plain, served: Callable[[GroupVersionKind], bool]) -> None:
    """Refuse an object of a version that a cluster does not have, in kubectl's words."""
    gvk = GroupVersionKind.parse(str(one.get("apiVersion", "")), str(one.get("kind", "")))
    if (gvk.group, gvk.kind) not in _read_as() or served(gvk):
        return
    metadata = one.get("metadata")
    known: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    text = (
        f'resource mapping not found for name: "{known.get("name", "")}" namespace: "{known.get("namespace", "")}": '
        f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
    )
    definition = definition_of(gvk.group, gvk.kind)
    there = (
        [v.name for v in definition.versions if served(gvk._replace(version=v.name))] if definition is not None else []
    )
    raise InvalidInput(text + (f"; the cluster has {', '.join(there)}" if there else ""))


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


def _unknown_fields(one: KubeObject, problems: Iterable[str]) -> Note:
    named = list(problems)
    shown = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    namespace, name = key_of(one)
    where = f"{type(one).__name__} {namespace + '/' if namespace else ''}{name}"
    return Note(where, "unknown fields", f"{where}: {shown}; what they mean is not known here")


def read_object(given: KubeObject | Plain) -> Decoded[KubeObject] | None:
    """The object in the newest version, with the fields that it has beyond it; None for kinds that are not read.

    Raises:
        InvalidInput: it has no kind, a version that is not known, or a field of the wrong type.
    """
    # Objects of the official client and typed objects are decoded by the allocator's reader.
    if (known := decoded_object(given)) is not None:
        return known
    if isinstance(given, KubeObject):
        return Decoded(given) if type(given) in _types() else None
    gvk = GroupVersionKind.parse(str(given.get("apiVersion", "")), str(given.get("kind", "")))
    definition, wanted = definition_of(gvk.group, gvk.kind), _read_as().get((gvk.group, gvk.kind))
    if definition is None or wanted is None:
        return None
    version = _versions_of(gvk.group, gvk.kind).get(gvk.version)
    if version is None:
        served = ", ".join(version.name for version in definition.versions)
        where = f"{gvk.kind} {name_of(given)}: {gvk.api_version}"
        # Readers of dumps leave out what cannot be decoded: one object of a later release must not end them.
        raise UndecodableInput(f"{where} is no version of it; known are {served}")
    try:
        decoded = decode_plain(version.type, gvk, given)
        hub = version.to_hub(decoded.object)
    except (DecodeError, msgspec.MsgspecError, TypeError) as error:
        raise UndecodableInput(f"{gvk.kind} {name_of(given)}: {error}") from error
    # A PodGroup is kept as v1alpha3 has it, while the scheduler reads v1beta1: the same fields, of another module.
    return Decoded(hub if type(hub) is wanted else reshape(hub, wanted), decoded.problems)


def definition_of(group: str, kind: str) -> AnyDefinition | None:
    """The rules of a kind, gated ones included, with the versions of all releases; None if it is no built-in kind."""
    return _definitions().get((group, kind))


@cache
def _definitions() -> Mapping[tuple[str, str], AnyDefinition]:
    """The kinds of the default release, each with all versions that any release has, newest first."""
    versions: dict[tuple[str, str], dict[str, VersionDefinition]] = {}
    # With the versions of the default release alone, clusters and dumps of older releases would become unreadable on
    # the day on which a release that drops their version becomes the default.
    for release in reversed(RELEASES):
        for one in all_definitions(_every_gate(release)):
            known = versions.setdefault((one.group, one.kind), {})
            for version in one.versions:
                known.setdefault(version.name, version)
    return {
        (one.group, one.kind): msgspec.structs.replace(one, versions=tuple(versions[one.group, one.kind].values()))
        for one in all_definitions(_every_gate(DEFAULT_RELEASE))
    }


def _every_gate(release: str) -> FeatureGates:
    return FeatureGates.for_release(release, {"AllAlpha": True, "AllBeta": True})


def _versions_of(group: str, kind: str) -> Mapping[str, VersionDefinition]:
    definition = definition_of(group, kind)
    return {} if definition is None else {version.name: version for version in definition.versions}


@cache
def _read_as() -> Mapping[tuple[str, str], type[KubeObject]]:
    """The type as which each kind is read."""
    return {(kind.ref.group, kind.ref.kind): kind.ref.type for kind in READ_KINDS}


@cache
def _types() -> frozenset[type[KubeObject]]:
    return frozenset(kind.ref.type for kind in READ_KINDS)
