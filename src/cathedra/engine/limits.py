"""Bounds on what a page loads, so that a hostile or damaged dump neither fills the memory nor hangs the page.

The command reads what it is given, because its user can wait or interrupt it. A page has neither. What a limit removes
is reported as a sentence, so that no answer seems complete that is not.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import NamedContent, Plain, name_of, plain_objects
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.decoding import WrittenObject
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.resource import ResourceSlice
from cathedra.insight.reading.dumps import DumpReader
from cathedra.insight.reading.features import RequestedRelease
from cathedra.insight.reading.state import ClusterState, Note, key_of
from cathedra.printable import counted

_NAMED: Final = 5
"""Objects that a sentence names; more are counted."""
_MOST_IN_SLICE: Final = 128
"""Devices of a slice, at most (Kubernetes' limit)."""
_SHORT: Final = 80
"""Characters of a name in a sentence."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest sizes that are accepted. None of them affects a cluster within Kubernetes' own limits."""

    bytes: int = 256 << 20
    """Bytes of all files of a dump, before they are unpacked."""
    object_bytes: int = 3 << 20
    """Bytes of one object; no API server accepts a longer request."""
    objects: int = 400_000
    devices: int = 200_000
    notes: int = 200
    characters: int = 16 << 10
    """Characters of one string in a model; an expression has at most 10 Ki. 0: not limited, as of objects that an API
    server has accepted."""
    text: int = 4 << 20
    """Characters of the text of an answer."""
    copies: int = 1000


@dataclass(frozen=True, slots=True)
class LoadedDump:
    """The state of a dump, and the parts that were left out."""

    state: ClusterState
    left_out: tuple[str, ...]


def load_dump(files: Sequence[NamedContent], requested: RequestedRelease, limits: Limits) -> LoadedDump:
    """Read the files of a dump. As in a directory, a file that cannot be read is skipped and noted.

    Raises:
        InvalidInput: nothing in them can be read, or all together are too long.
        UnknownGate: the release or a gate is not known.
    """
    if sum(len(one.content) for one in files) > limits.bytes:
        raise InvalidInput(f"the files are longer than {limits.bytes >> 20} MiB together; leave out what is not needed")
    reading = _BoundedReading(limits)
    for file in files:
        reading.read(file)
    if reading.failures and not reading.reader.objects:
        raise reading.failures[0]
    state, dropped = with_few_devices(reading.reader.state(requested), limits.devices)
    left_out = [*reading.left_out(), *dropped]
    if len(state.notes) > limits.notes:
        left_out.append(f"{counted(len(state.notes) - limits.notes, 'note')} on the dump")
        state = dataclasses.replace(state, notes=state.notes[: limits.notes])
    return LoadedDump(state, tuple(left_out))


class _BoundedReading:
    """Reads files object by object, without those that are too large or too many."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.reader = DumpReader()
        self.failures: list[InvalidInput] = []
        self._large: list[str] = []
        self._objects = self._further = 0
        self._devices_left = limits.devices
        self._dropped_slices = self._dropped_devices = 0

    def read(self, file: NamedContent) -> None:
        self.reader.sources.append(file.name)
        try:
            for one in plain_objects(file, skipped=self._skip):
                self._add(one)
        except InvalidInput as error:
            self._fail(error)

    def _add(self, one: KubeObject | Plain) -> None:
        if self._objects >= self._limits.objects:
            self._further += 1
        elif _size(one) > self._limits.object_bytes:
            self._large.append(_title(one))
        elif not self._drop(one):
            self._objects += 1
            known = len(self.reader.objects)
            try:
                self.reader.add([one])
            except InvalidInput as error:
                # An object that cannot be decoded and has no name. It must not hide those after it.
                self._fail(error)
            for added in self.reader.objects[known:]:
                if isinstance(added, ResourceSlice):
                    self._devices_left -= len(added.spec.devices or ())

    def _drop(self, one: KubeObject | Plain) -> bool:
        """Return True for a slice of more devices than are left. Its devices are counted and not decoded: a dump of a
        million devices is then read in less than half of the time."""
        if self._devices_left >= _MOST_IN_SLICE or not isinstance(one, WrittenObject) or one.kind != "ResourceSlice":
            return False
        try:
            number = len(_SLICES.decode(one.body).spec.devices or ())
        except msgspec.MsgspecError:
            return False  # the reader reports it
        if number <= self._devices_left:
            return False
        self._dropped_slices += 1
        self._dropped_devices += number
        return True

    def _fail(self, error: InvalidInput) -> None:
        self.failures.append(error)
        self._skip(str(error))

    def _skip(self, why: str) -> None:
        self.reader.notes.append(Note("files", "unreadable", f"{why}; skipped"))

    def left_out(self) -> Iterable[str]:
        if self._large:
            bound = f"longer than {self._limits.object_bytes >> 20} MiB, which no API server accepts"
            yield f"{counted(len(self._large), 'object')} {bound}: {_some(self._large)}"
        if self._further:
            yield f"{counted(self._further, 'object')} beyond the first {self._limits.objects:,}"
        if self._dropped_slices:
            yield _beyond(self._dropped_devices, self._dropped_slices, self._limits.devices)


class _SliceSpec(msgspec.Struct):
    devices: list[msgspec.Raw] | None = None


class _Slice(msgspec.Struct):
    spec: _SliceSpec


_SLICES: Final = msgspec.json.Decoder(_Slice)


def _beyond(devices: int, slices: int, most: int) -> str:
    return f"{counted(devices, 'device')} of {counted(slices, 'slice')} beyond the first {most:,}"


def _size(one: KubeObject | Plain) -> int:
    """Return the bytes of an object in JSON."""
    return len(one.body) if isinstance(one, WrittenObject) else len(msgspec.json.encode(one))


def _title(one: KubeObject | Plain) -> str:
    kind = str(one.get("kind", "object")) if isinstance(one, Mapping) else type(one).__name__
    return f"{kind} {name_of(one)}"[:_SHORT]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def with_few_devices(state: ClusterState, most: int) -> tuple[ClusterState, Sequence[str]]:
    """Return the state with the slices up to the device with the number ``most``, and what is missing."""
    left, dropped, devices = most, [], 0
    for piece in state.all(ResourceSlice):
        number = len(piece.spec.devices or ())
        if number <= left:
            left -= number
        else:
            dropped.append(piece)
            devices += number
    if not dropped:
        return state, ()
    text = _beyond(devices, len(dropped), most)
    names = frozenset(key_of(one) for one in dropped)
    kept = {key: one for key, one in state.objects[ResourceSlice].items() if key not in names}
    return dataclasses.replace(state, objects={**state.objects, ResourceSlice: kept}, followed=None), (text,)


# --- answers


def bounded_answer(model: JSONObject, text: str, limits: Limits) -> tuple[JSONObject, str, tuple[str, ...]]:
    """Return model and text of an answer without overlong strings, and what was cut."""
    cut: list[str] = []
    # Few answers have a long string. A search through the JSON takes a tenth of the time of a walk through the values.
    most = limits.characters
    if most and re.search(rb'"(?:[^"\\]|\\.){%d}' % most, encoded := msgspec.json.encode(model)):
        cutter = _Cutter(most)
        # A map is JSON already.
        model = cutter.cut(msgspec.json.decode(encoded))
        if cutter.count:
            cut.append(f"the ends of {counted(cutter.count, 'string')} longer than {limits.characters:,} characters")
    if len(text) > limits.text:
        cut.append(f"the text after {limits.text:,} characters")
        text = f"{text[: limits.text]}…"
    return model, text, tuple(cut)


class _Cutter:
    """Cuts the strings of a model, keys included."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0

    def cut(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._short(value)
        if isinstance(value, dict):
            return {self._short(key): self.cut(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.cut(item) for item in value]
        return value

    def _short(self, value: str) -> str:
        if len(value) <= self._most:
            return value
        self.count += 1
        return f"{value[: self._most - 1]}…"
