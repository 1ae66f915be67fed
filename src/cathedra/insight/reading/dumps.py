"""Dumps of clusters: YAML and JSON with Lists and several documents, directories, archives, standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

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
from cathedra.insight.reading.state import READ_KINDS, ClusterState, Note, key_of, note_on, with_one_device_note
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.kinds.resource.definitions import device_definitions
from cathedra.releases import DEFAULT_RELEASE, NEWEST, RELEASES, FeatureGates

__all__ = [
    "COMMAND",
    "DumpReader",
    "definition_of",
    "kind_is_read",
    "read_dump",
    "read_object",
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
    """Return the state that a dump holds; `pathlib.Path("-")` is standard input.

    Unknown fields, which releases after 1.37 may have, are named in a note, and so are objects that cannot be decoded;
    kinds of which the dump has no object are counted as not known. Without ``release``, that of the newest kubelet is
    assumed, and a note names it. ``feature_gates`` are those that differ from its defaults.

    Raises:
        InvalidInput: something in it is no Kubernetes object.
        UnknownGate: the release or a gate is not known.
    """
    reader = DumpReader()
    reader.add(given)
    return reader.state(RequestedRelease(release, feature_gates))


class DumpReader:
    """Collects the objects of a dump from several inputs, or pages of a server's answers."""

    def __init__(self) -> None:
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
            InvalidInput: something in it is no Kubernetes object.
        """
        for one in self._read_input(given):
            try:
                decoded = read_object(one)
            except UndecodableInput as error:
                if isinstance(one, KubeObject) or not self._leave_out(one, error):
                    raise
                continue
            if decoded is None:
                continue
            self.objects.append(decoded.object)
            if isinstance(one, Mapping):
                self.api_versions.add(str(one.get("apiVersion", "")))
            if decoded.problems:
                self.notes.append(_unknown_fields(decoded.object, decoded.problems))

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
        yield from plain_objects(given, skipped=self._skip)

    def _skip(self, why: str) -> None:
        self.notes.append(Note("files", "unreadable", f"{why}; skipped"))

    def _note_list(self, given: Plain) -> None:
        """Record a List without items: there are no objects of its kind."""
        kind = str(given.get("kind", ""))
        if kind.endswith("List"):
            self._listed.add(kind.removesuffix("List"))


def _unknown_fields(one: KubeObject, problems: Iterable[str]) -> Note:
    named = list(problems)
    shown = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    namespace, name = key_of(one)
    where = f"{type(one).__name__} {namespace + '/' if namespace else ''}{name}"
    return Note(where, "unknown fields", f"{where}: {shown}; what they mean is not known here")


def read_object(given: KubeObject | Plain, release: str = "") -> Decoded[KubeObject] | None:
    """Return the object in the newest version, with the fields that it has beyond it; None for kinds that are not read.

    Fields that ``release`` does not have are unknown; by default those of all releases are known.

    Raises:
        InvalidInput: it has no kind, a version that is not known, or a field of the wrong type.
    """
    # Objects of the official client and typed objects are decoded by the allocator's reader.
    if (known := decoded_object(given, release)) is not None:
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
        decoded = decode_plain(version.type, gvk, given, release or NEWEST)
        hub = version.to_hub(decoded.object)
    except (DecodeError, msgspec.MsgspecError, TypeError) as error:
        raise UndecodableInput(f"{gvk.kind} {name_of(given)}: {error}") from error
    # A PodGroup is kept as v1alpha3 has it, while the scheduler reads v1beta1: the same fields, of another module.
    return Decoded(hub if type(hub) is wanted else reshape(hub, wanted), decoded.problems)


def definition_of(group: str, kind: str) -> AnyDefinition | None:
    """Check the rules of a kind, gated ones included, with the versions of all releases; None if it is no built-in
    kind."""
    known = _definitions(device_definitions) if group == GROUP else _other_definitions()
    return known.get((group, kind))


def _other_definitions() -> Mapping[tuple[str, str], AnyDefinition]:
    # start-up time: few dumps have others than nodes, pods and objects of resource.k8s.io
    from cathedra.kinds.served import all_definitions

    return _definitions(all_definitions)


@cache
def _definitions(
    of_release: Callable[[FeatureGates], tuple[AnyDefinition, ...]],
) -> Mapping[tuple[str, str], AnyDefinition]:
    """Return the kinds of the default release, each with all versions that any release has, newest first."""
    versions: dict[tuple[str, str], dict[str, VersionDefinition]] = {}
    # With the versions of the default release alone, clusters and dumps of older releases would become unreadable on
    # the day on which a release that drops their version becomes the default.
    for release in reversed(RELEASES):
        for one in of_release(_every_gate(release)):
            known = versions.setdefault((one.group, one.kind), {})
            for version in one.versions:
                known.setdefault(version.name, version)
    return {
        (one.group, one.kind): msgspec.structs.replace(one, versions=tuple(versions[one.group, one.kind].values()))
        for one in of_release(_every_gate(DEFAULT_RELEASE))
    }


def _every_gate(release: str) -> FeatureGates:
    return FeatureGates.for_release(release, {"AllAlpha": True, "AllBeta": True})


def kind_is_read(group: str, kind: str) -> bool:
    """Return True for the kinds that `read_object` returns."""
    return (group, kind) in _read_as()


def _versions_of(group: str, kind: str) -> Mapping[str, VersionDefinition]:
    definition = definition_of(group, kind)
    return {} if definition is None else {version.name: version for version in definition.versions}


@cache
def _read_as() -> Mapping[tuple[str, str], type[KubeObject]]:
    """Return the type as which each kind is read, by group and kind."""
    return {(kind.ref.group, kind.ref.kind): kind.ref.type for kind in READ_KINDS}


@cache
def _types() -> frozenset[type[KubeObject]]:
    return frozenset(kind.ref.type for kind in READ_KINDS)
