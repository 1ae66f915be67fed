"""Sets of field paths, in the form of ``fieldsV1``.

A path element is a text: ``f:name`` for a field or key, ``k:{"name":"c"}`` for an element of a keyed list, ``v:"x"``
for an element of a set. A node is either a member itself, or has members below, or both.

Objects of one kind have the same fields again and again, but for an element that is found by another object's uid. So
sets are shared by all that have them, and what is known of one is known by its number; of sets that differ in nothing
but one such element the form is shared, in which the element's place is open, and each of them is that form filled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count
from operator import attrgetter
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import BoundedCache, cached_texts
from cathedra.api.struct import RawJSON
from cathedra.remembering import remembered

__all__ = ["NOTHING", "ONE_FIELD", "FieldSet", "Filled"]

KNOWN: Final = 4096
"""Sets that are found again by their spelling, and by their parts."""
KNOWN_BYTES: Final = 8 * 1024 * 1024
"""Bytes of their spellings."""
LARGEST_SHARED: Final = 8 * 1024
"""Bytes of the path elements of a set that is found again by its parts."""


class FieldSet:
    """A set of paths as a tree. ``member`` says whether the path to this node itself belongs to the set."""

    __slots__ = (
        "_ends",
        "_raw",
        "_spelled",
        "children",
        "is_tracked",
        "member",
        "number",
        "opening",
        "place",
        "weight",
    )

    def __init__(self, member: bool = False, children: dict[str, FieldSet] | None = None) -> None:
        self.member = member
        self.children: dict[str, FieldSet] = children if children is not None else {}
        self.is_tracked = False
        """Whether it is known to have no field that has no owner."""
        self.number = 0
        """Sets with the same number and the same place have the same paths; 0 if it is known by none."""
        self.weight = 0
        """Bytes of all path elements below, of a set with a number."""
        self.opening: tuple[str, ...] = ()
        """The path to the only element that is found by an object's uid, in a set with a number."""
        self.place = ""
        """That element; a set that has an opening and no such element is a form."""
        self._ends = b"", b""
        """What a form spells before its opening and behind."""
        self._spelled = b""
        self._raw: RawJSON | None = None

    @staticmethod
    def of(children: dict[str, FieldSet], *, member: bool) -> FieldSet:
        """The set of these parts: the very same for the same parts, or the same form filled, so that it is spelled
        once. What has a part that is its own alone is so, too."""
        key = (member, *children, *map(_number, children.values()))
        try:
            found = _SHARED[key]
        except KeyError:
            shared = FieldSet._shared(children, member)
            if shared is None:
                return FieldSet(member, children)
            found = _SHARED.keep(key, shared, shared.weight)
        if found.opening and (place := children[found.opening[0]].place):
            return Filled(found, place)
        return found

    @staticmethod
    def of_one(element: str, below: FieldSet) -> FieldSet:
        """The set of a list that has one element, which is found by a uid."""
        form = FieldSet.of({OPEN: below}, member=True)
        return Filled(form, element) if form.opening else FieldSet(True, {element: below})

    def numbered(self) -> FieldSet:
        """The same with a number; itself, if it cannot have one."""
        if self.number:
            return self
        return FieldSet.of({key: child.numbered() for key, child in self.children.items()}, member=self.member)

    @staticmethod
    def _shared(children: dict[str, FieldSet], member: bool) -> FieldSet | None:
        """The set of these parts with a number, as a form if there is an opening; None if it cannot have one."""
        opening: tuple[str, ...] = ()
        forms = {}
        for element, child in children.items():
            inner = (element, *child.opening) if element == OPEN or child.opening else ()
            if not child.number or element.startswith(_OWN) or (inner and opening) or inner.count(OPEN) > 1:
                return None
            opening = opening or inner
            forms[element] = child.form
        weight = sum(map(len, children)) + sum([child.weight for child in forms.values()])
        if weight > LARGEST_SHARED or (OPEN in children and len(children) > 1):
            return None
        made = FieldSet(member, forms)
        made.number = next(_NUMBERS)
        made.weight = weight
        made.opening = opening
        return made

    @property
    def form(self) -> FieldSet:
        """What it shares with others of its number: the set itself, or the form that it fills."""
        return self

    @staticmethod
    def from_json(value: Any) -> FieldSet:
        """The set that ``fieldsV1`` spells."""
        root = FieldSet()
        root._read(value)
        return root

    @staticmethod
    def from_raw(raw: RawJSON) -> FieldSet:
        """The set that ``fieldsV1`` spells, as stored; remembered, since every write of an object reads it again.

        Raises:
            msgspec.DecodeError: it is no JSON.
            AttributeError: it is no tree.
        """
        found = _READ.get(raw.data)
        # Spelled anew when it is written: another client may have put blanks in, which are no change.
        if found is None:
            found = _filled(raw) or FieldSet.from_json(raw.load()).numbered()
            _READ.keep(raw.data, found, len(raw.data))
        return found

    @staticmethod
    def from_own_spelling(raw: RawJSON) -> FieldSet | None:
        """`from_raw`, if that is a tree below a root which is no member, and is spelled as it would be again."""
        found = _READ.get(raw.data)
        if found is None or found._raw is not raw:
            try:
                found = FieldSet.from_raw(raw)
            except (msgspec.DecodeError, AttributeError):
                return None
            if found.raw.data != raw.data:
                return None
        return None if found.member else found

    def expect_reading(self) -> RawJSON:
        """The set as ``fieldsV1``, for whose spelling `from_raw` is to give this very set."""
        raw = self._raw or self.raw
        data = raw.data
        if data not in _READ:
            _READ.keep(data, self, len(data))
        return raw

    @property
    def raw(self) -> RawJSON:
        """The set as ``fieldsV1``, in bytes; made once, so nothing may be inserted afterwards."""
        if self._raw is None:
            self._raw = RawJSON.without_blanks(self._spelled or self._spell())
        return self._raw

    def _spell(self) -> bytes:
        children = self.children
        # Keys of elements are as many as there are objects, fields are few.
        below = [
            (_key(element) if element[0] == "f" else _encoded(element) + b":") + (child._spelled or child._spell())
            for element, child in (sorted(children.items()) if len(children) > 1 else children.items())
        ]
        if self.member and below:
            below.insert(0, b'".":{}')
        spelled = self._spelled = b"{%b}" % b",".join(below)
        return spelled

    def to_json(self) -> dict[str, Any]:
        """The set as ``fieldsV1``; keys sorted as Kubernetes sorts them."""
        out: dict[str, Any] = {}
        if self.member and self.children:
            out["."] = {}
        for element in sorted(self.children):
            out[element] = self.children[element].to_json()
        return out

    def _read(self, value: dict[str, Any]) -> None:
        for element, below in value.items():
            if element == ".":
                self.member = True
                continue
            child = self.children[element] = FieldSet(member=not below)
            child._read(below)

    @property
    def empty(self) -> bool:
        """Whether no path belongs to it. No node below the root is without one."""
        return not self.member and not self.children

    def insert(self, path: Iterable[str]) -> None:
        """Add one path."""
        node = self
        for element in path:
            node = node.children.setdefault(element, FieldSet())
        node.member = True

    def at(self, path: Iterable[str]) -> FieldSet:
        """The part below a path, made if it is not there."""
        node = self
        for element in path:
            node = node.children.setdefault(element, FieldSet())
        return node

    def union(self, other: FieldSet) -> FieldSet:
        """The paths of both."""
        if not other.children and (self.member or not other.member):
            return self
        children = dict(self.children)
        for element, child in other.children.items():
            mine = children.get(element)
            children[element] = child if mine is None else mine.union(child)
        return FieldSet(self.member or other.member, children)

    def intersection(self, other: FieldSet) -> FieldSet:
        """The paths that belong to both."""
        children = {}
        for element in self.children.keys() & other.children.keys():
            common = self.children[element].intersection(other.children[element])
            if not common.empty:
                children[element] = common
        return FieldSet(self.member and other.member, children)

    def difference(self, other: FieldSet) -> FieldSet:
        """The paths of this one that do not belong to the other; itself, if that takes none away."""
        children = self.children
        for element in self.children.keys() & other.children.keys():
            mine = self.children[element]
            rest = mine.difference(other.children[element])
            if rest is mine:
                continue
            if children is self.children:
                children = dict(children)
            if rest.empty:
                del children[element]
            else:
                children[element] = rest
        member = self.member and not other.member
        unchanged = children is self.children and member is self.member
        return self if unchanged else FieldSet(member, children)

    def without_subtrees(self, other: FieldSet) -> FieldSet:
        """The paths of this one that lie neither at nor below a path of the other; itself, if that are all."""
        children = self.children
        for element in children.keys() & other.children.keys():
            theirs = other.children[element]
            mine = self.children[element]
            rest = _NO_PATHS if theirs.member else mine.without_subtrees(theirs)
            if rest is mine:
                continue
            if children is self.children:
                children = dict(children)
            if rest.empty:
                del children[element]
            else:
                children[element] = rest
        return self if children is self.children else FieldSet(self.member, children)

    def with_named_parents(self) -> FieldSet:
        """The set with every field on the way to a member as a member."""
        children = {element: child.with_named_parents() for element, child in self.children.items()}
        for element, child in children.items():
            if element.startswith("f:") and child.children:
                child.member = True
        return FieldSet(self.member, children)

    def paths(self, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Every member path, sorted."""
        if self.member:
            yield prefix
        for element in sorted(self.children):
            yield from self.children[element].paths((*prefix, element))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and list(self.paths()) == list(other.paths())

    def __hash__(self) -> int:
        return hash(tuple(self.paths()))

    def __repr__(self) -> str:
        return f"FieldSet({self.to_json()})"


OPEN: Final = "k:"
"""The element of a form in whose place others have one with a uid. None is spelled so."""
_OWN: Final = 'k:{"uid":'
_number: Final = attrgetter("number")
_encoded: Final = msgspec.json.encode


class Filled(FieldSet):
    """A form with an element in its opening. Its parts are made when they are asked for, and mostly they are not."""

    __slots__ = ("_form",)

    def __init__(self, form: FieldSet, place: str) -> None:
        self.member = form.member
        self.is_tracked = form.is_tracked
        self.number = form.number
        self.opening = form.opening
        self.place = place
        self._spelled = b""
        self._raw = None
        self._form = form

    @property
    def form(self) -> FieldSet:
        return self._form

    def __getattr__(self, name: str) -> dict[str, FieldSet]:
        if name != "children":
            raise AttributeError(name)
        at, form = self.opening[0], self._form
        made = self.children = {
            (self.place if element == OPEN else element): (
                Filled(child, self.place) if element == at != OPEN else child
            )
            for element, child in form.children.items()
        }
        return made

    def _spell(self) -> bytes:
        form = self._form
        before, after = form._ends
        if not before:
            before, _, after = form._spell().partition(_SPELLED_OPEN)
            form._ends = before, after
        spelled = self._spelled = b"%b%b:%b" % (before, _encoded(self.place), after)
        return spelled


@cached_texts(4096)
def _key(element: str) -> bytes:
    return _encoded(element) + b":"


def _filled(raw: RawJSON) -> FieldSet | None:
    """The set that ``fieldsV1`` spells, if it has one element that is found by a uid."""
    parts = _ONE_UID.split(raw.data)
    known = _kept_form if len(raw.data) <= LARGEST_SHARED else _form
    form = known(parts[0], parts[2]) if len(parts) == 3 else None
    if form is None:
        return None
    made = Filled(form, f'k:{{"uid":"{parts[1].decode()}"}}')
    made._raw = raw  # it is spelled so, since its form is
    return made


def _form(before: bytes, after: bytes) -> FieldSet | None:
    """The form that is spelled so around its opening; None if it is none, or would be spelled otherwise."""
    raw = RawJSON(b'%b"%b"%b' % (before, OPEN.encode(), after))
    try:
        form = FieldSet.from_json(raw.load()).numbered()
    except (msgspec.DecodeError, AttributeError):
        return None
    return form if form.opening and form.raw.data == raw.data else None


_kept_form: Final = remembered("apiserver.ownership.fieldset.form", size=KNOWN)(_form)


_ONE_UID: Final = re.compile(rb'"k:\{\\"uid\\":\\"([0-9a-f-]+)\\"\}"')
# A tree takes some 20 times the bytes of its spelling.
_READ: Final[BoundedCache[bytes, FieldSet]] = BoundedCache(KNOWN, most_bytes=KNOWN_BYTES)
_SHARED: Final[BoundedCache[tuple[object, ...], FieldSet]] = BoundedCache(KNOWN, most_bytes=KNOWN_BYTES)
_NUMBERS: Final = count(1)
_SPELLED_OPEN: Final = b'"%b":' % OPEN.encode()
"""No text holds that: quotes are escaped in them."""
_NO_PATHS: Final = FieldSet()
NOTHING: Final = FieldSet.of({}, member=False)
"""The set of no path."""
ONE_FIELD: Final = FieldSet.of({}, member=True)
"""The set of a path alone."""
