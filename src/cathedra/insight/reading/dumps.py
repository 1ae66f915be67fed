"""Dumps of clusters: YAML and JSON with Lists and several documents, directories, archives, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cathedra.allocation.errors import InvalidInput, UndecodableInput
from cathedra.allocation.reading import Input, Plain, plain_objects, read_input
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.struct import encode
from cathedra.api.undecodable import Undecodable, identify
from cathedra.insight.reading.kinds import READ_KINDS
from cathedra.insight.reading.objects import read_object
from cathedra.insight.reading.state import ClusterState, Note, key_of, note_on
from cathedra.releases import NEWEST, FeatureGates

__all__ = ["COMMAND", "DumpReader", "read_dump", "read_manifests"]

COMMAND: Final = (
    "kubectl get nodes,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,devicetaintrules "
    "-A -o yaml"
)
"""What makes a dump with everything that is missed otherwise."""
STDIN: Final = Path("-")
_NAMED: Final = 5
"""Unknown fields that are named for each object; more are counted."""


def read_dump(given: Input, *, release: str = NEWEST) -> ClusterState:
    """The state that a dump holds; `pathlib.Path("-")` is standard input.

    Unknown fields, which releases after 1.37 may have, are named in a note, and so are objects that cannot be decoded;
    kinds of which the dump has no object are counted as not known.

    Raises:
        InvalidInput: something in it is no Kubernetes object.
        UnknownGate: the release is not known.
    """
    reader = DumpReader(strict=False)
    reader.add(given)
    return reader.state(release)


def read_manifests(given: Input) -> tuple[tuple[KubeObject, ...], tuple[Note, ...]]:
    """The objects of manifests, and notes on what they say that no release knows; other kinds are left out.

    Raises:
        InvalidInput: something in it is no Kubernetes object, or has a field of the wrong type.
    """
    reader = DumpReader(strict=True)
    reader.add(given)
    return tuple(reader.objects), tuple(reader.notes)


class DumpReader:
    """Collects the objects of a dump from several inputs, or pages of a server's answers."""

    def __init__(self, *, strict: bool) -> None:
        """``strict``: an object with a field of the wrong type is an error; otherwise it is noted, and left out."""
        self._strict = strict
        self.undecodable: list[Undecodable] = []
        self.objects: list[KubeObject] = []
        self.notes: list[Note] = []
        self.sources: list[str] = []
        self._listed: set[str] = set()

    def add(self, given: Input) -> None:
        """Read one input more.

        Raises:
            InvalidInput: something in it is no Kubernetes object, or, of strict readers, has a field of the wrong type.
        """
        for one in self._opened(given):
            try:
                decoded = read_object(one)
            except UndecodableInput as error:
                if self._strict or isinstance(one, KubeObject) or not self._leave_out(one, error):
                    raise
                continue
            if decoded is None:
                continue
            self.objects.append(decoded.object)
            if decoded.problems:
                self.notes.append(_unknown_fields(decoded.object, decoded.problems))

    def state(self, release: str = NEWEST) -> ClusterState:
        """What was read.

        Raises:
            UnknownGate: the release is not known.
        """
        source = ", ".join(self.sources) or "objects"
        gates = FeatureGates.for_release(release)
        state = ClusterState.of(self.objects, source, gates=gates, undecodable=tuple(self.undecodable))
        missing = [
            kind for kind in READ_KINDS if kind.ref.type not in state.objects and kind.ref.kind not in self._listed
        ]
        absent = tuple(
            Note(kind.plural, "absent", f"there are no {kind.plural} in {source}: {kind.consequence}")
            for kind in missing
            if kind.consequence
        )
        return replace(state, notes=(*absent, *self.notes), unknown=frozenset(kind.ref.type for kind in missing))

    def _leave_out(self, one: Plain, error: UndecodableInput) -> bool:
        """Note an object that cannot be decoded. Return False if it has no name to be noted by."""
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        what = identify(str(one["kind"]), encode(one), cause)
        if what.name:
            self._listed.add(what.kind)
            self.undecodable.append(what)
            self.notes.append(note_on(what))
        return bool(what.name)

    def _opened(self, given: Input) -> Iterator[KubeObject | Plain]:
        if given == STDIN:
            self.sources.append("standard input")
            yield from plain_objects(read_input(sys.stdin.buffer, "standard input"), "standard input")
            return
        if isinstance(given, Path):
            self.sources.append(str(given))
            if not given.exists():
                raise InvalidInput(f"{given}: there is no such file or directory")
        if isinstance(given, Mapping):
            self._note_list(given)
        if isinstance(given, Sequence) and given and all(isinstance(one, Path) for one in given):
            for one in given:
                yield from self._opened(one)
            return
        yield from plain_objects(given)

    def _note_list(self, given: Plain) -> None:
        """A List without items says that there are none."""
        kind = str(given.get("kind", ""))
        if kind.endswith("List"):
            self._listed.add(kind.removesuffix("List"))


def _unknown_fields(one: KubeObject, problems: Iterable[str]) -> Note:
    named = list(problems)
    shown = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    namespace, name = key_of(one)
    where = f"{type(one).__name__} {namespace + '/' if namespace else ''}{name}"
    return Note(where, "unknown fields", f"{where}: {shown}; what they mean is not known here")
