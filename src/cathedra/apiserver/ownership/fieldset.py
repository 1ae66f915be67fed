"""Sets of field paths, as ``fieldsV1`` writes them (docs/spec/apimachinery.md §6.5).

A path element is a text: ``f:name`` for a field or key, ``k:{"name":"c"}`` for an element of a keyed list, ``v:"x"``
for an element of a set. A node of the tree is a member itself, or has members below, or both.

Most objects of a kind have the same fields. Equal sets therefore share one tree with a number, and memos use the number
as their key. Some sets differ only in one list element that has another object's uid, as owner references and
``reservedFor`` do. They share a template with a placeholder for that element (`FilledTemplate`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import count
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import BoundedCache, cached_texts
from cathedra.api.struct import RawJSON
from cathedra.remembering import remembered

__all__ = [
    "METADATA",
    "NOTHING",
    "ONE_FIELD",
    "SET",
    "UNCHANGED",
    "UNTRACKED",
    "Changes",
    "FieldSet",
    "FieldSets",
    "FilledTemplate",
    "InvalidElement",
    "OwnJSON",
    "changes_of",
    "fields_at",
    "keep_set",
    "known_set",
    "tracked_part",
]

KNOWN: Final = 4096
"""Number of sets that are cached by their JSON, and by their parts."""
KNOWN_BYTES: Final = 8 * 1024 * 1024
"""Bytes of their JSON in all. A tree takes some 20 times as much memory."""
LARGEST_SHARED: Final = 8 * 1024
"""Bytes of the path elements of a set up to which it is shared."""


class InvalidElement(ValueError):
    """A key of ``fieldsV1`` is no path element."""


class FieldSet:
    """A set of paths as a tree. ``member`` is true if the path to this node itself belongs to the set.

    A set with a number is shared and must not be changed: `insert` is for new sets.
    """

    __slots__ = (
        "_around",
        "_json",
        "_raw",
        "children",
        "element",
        "is_tracked",
        "member",
        "number",
        "placeholder",
        "weight",
    )

    def __init__(self, member: bool = False, children: dict[str, FieldSet] | None = None) -> None:
        self.member = member
        self.children: dict[str, FieldSet] = children if children is not None else {}
        self.is_tracked = False
        """True if the set is known to contain no untracked field (`tracked_part`)."""
        self.number = 0
        """Sets with the same number and the same ``element`` are equal; 0 if the set is not shared."""
        self.weight = 0
        """Bytes of all path elements below, of a set with a number."""
        self.placeholder: tuple[str, ...] = ()
        """Path to the only element with an object's uid, of a set with a number."""
        self.element = ""
        """That element; empty in a template."""
        self._around = b"", b""
        """The JSON of a template before and after its placeholder."""
        self._json = b""
        self._raw: RawJSON | None = None

    @staticmethod
    def of(children: dict[str, FieldSet], *, member: bool) -> FieldSet:
        """Return the set of these parts; the same object for equal parts if all of them are shared."""
        return _shared(member, children, FieldSet._of)

    @staticmethod
    def of_one(element: str, below: FieldSet) -> FieldSet:
        """Return the set of a list with one element, whose key is a uid."""
        # The key of `of`, which is found here nearly always.
        template = _SHARED.get((True, PLACEHOLDER, below.number)) or FieldSet.of({PLACEHOLDER: below}, member=True)
        return FilledTemplate(template, element) if template.placeholder else FieldSet(True, {element: below})

    @staticmethod
    def at_paths(sets: FieldSets, *, member: bool = False) -> FieldSet:
        """Return the union of sets, each below its path; no path begins with another. It is shared as those of `of`."""
        if not sets:
            return ONE_FIELD if member else NOTHING
        return _shared(member, sets, _nested)

    def numbered(self) -> FieldSet:
        """Return the shared set with the same paths, or the set itself if it cannot be shared."""
        if self.number:
            return self
        return FieldSet.of({key: child.numbered() for key, child in self.children.items()}, member=self.member)

    @staticmethod
    def _of(children: dict[str, FieldSet], *, member: bool) -> FieldSet:
        """Build `of`."""
        if not children:
            return ONE_FIELD if member else NOTHING  # the shared sets have been dropped
        filled = ""
        placeholder: tuple[str, ...] = ()
        templates = {}
        for element, child in children.items():
            inner = (element, *child.placeholder) if element == PLACEHOLDER or child.placeholder else ()
            if not child.number or element.startswith(_UID) or (inner and placeholder) or inner.count(PLACEHOLDER) > 1:
                return FieldSet(member, children)
            placeholder = placeholder or inner
            filled = filled or child.element
            templates[element] = child.template
        weight = sum(map(len, children)) + sum([child.weight for child in templates.values()])
        if weight > LARGEST_SHARED or (PLACEHOLDER in children and len(children) > 1):
            return FieldSet(member, children)
        made = FieldSet(member, templates)
        made.number = next(_NUMBERS)
        made.weight = weight
        made.placeholder = placeholder
        return FilledTemplate(made, filled) if filled else made

    @property
    def template(self) -> FieldSet:
        """The tree that sets with this number share."""
        return self

    @staticmethod
    def from_json(value: Any) -> FieldSet:
        """Decode ``fieldsV1`` from plain values.

        Raises:
            InvalidElement: a key is no path element.
        """
        root = FieldSet()
        root._read(value, _is_element)
        root.member = False  # Kubernetes ignores a "." at the root
        return root

    @staticmethod
    def from_raw(raw: RawJSON) -> FieldSet:
        """Decode ``fieldsV1``; cached, since every write of an object reads it again.

        Raises:
            msgspec.DecodeError: it is not JSON.
            AttributeError: it is not a tree of objects.
            InvalidElement: a key is no path element.
        """
        found = _READ.get(raw.data)
        # The set is encoded anew when it is written: blanks that another client put in are not a change.
        if found is None:
            found = _filled(raw) or FieldSet.from_json(raw.load()).numbered()
            _READ.keep(raw.data, found, len(raw.data))
        return found

    @staticmethod
    def from_own_json(raw: RawJSON) -> FieldSet | None:
        """Decode ``fieldsV1``; None if it cannot be decoded or would be encoded otherwise."""
        if type(raw) is OwnJSON:
            return raw.fields
        try:
            found = FieldSet.from_raw(raw)
        except (msgspec.DecodeError, AttributeError, InvalidElement):
            return None
        return found if found.raw.data == raw.data else None

    def expect_reading(self) -> RawJSON:
        """Return `raw`, and cache this set for `from_raw`: the next write of the object decodes it."""
        raw = self._raw or self.raw
        data = raw.data
        if data not in _READ:
            _READ.keep(data, self, len(data))
        return raw

    @property
    def raw(self) -> RawJSON:
        """The set as ``fieldsV1``; encoded once, so nothing may be inserted afterwards."""
        if self._raw is None:
            data = self._json or self._encode()
            # A set that is not shared is freed with its object: it and its JSON must not refer to each other.
            self._raw = OwnJSON(self, data) if self.number else RawJSON.without_blanks(data)
        return self._raw

    def _encode(self) -> bytes:
        children = self.children
        # Fields are few and their keys are cached. List elements are as many as there are objects.
        below = [
            (_key(element) if element[0] == "f" else _encoded(element) + b":") + (child._json or child._encode())
            for element, child in (sorted(children.items()) if len(children) > 1 else children.items())
        ]
        if self.member and below:
            below.insert(0, b'".":{}')
        encoded = self._json = b"{%b}" % b",".join(below)
        return encoded

    def to_json(self) -> dict[str, Any]:
        """Return the set as plain values; keys are sorted as Kubernetes sorts them."""
        out: dict[str, Any] = {}
        if self.member and self.children:
            out["."] = {}
        for element in sorted(self.children):
            out[element] = self.children[element].to_json()
        return out

    def _read(self, value: dict[str, Any], is_element: Callable[[str], bool]) -> None:
        for element, below in value.items():
            if element == ".":
                self.member = True
                continue
            if element[:2] != "f:" and not is_element(element):
                continue
            child = self.children[element] = FieldSet()
            child._read(below, is_element)
            child.member = child.member or not child.children

    @property
    def empty(self) -> bool:
        """True if the set has no path. Every node below the root has at least one."""
        return not self.member and not self.children

    def insert(self, path: Iterable[str]) -> None:
        """Add one path; its prefixes are not members."""
        node = self
        for element in path:
            node = node.children.setdefault(element, FieldSet())
        node.member = True

    def union(self, other: FieldSet) -> FieldSet:
        """Return the set of the paths in either set."""
        if not other.children and (self.member or not other.member):
            return self
        children = dict(self.children)
        for element, child in other.children.items():
            mine = children.get(element)
            children[element] = child if mine is None else mine.union(child)
        return FieldSet(self.member or other.member, children)

    def intersection(self, other: FieldSet) -> FieldSet:
        """Return the set of the paths in both sets."""
        children = {}
        for element in self.children.keys() & other.children.keys():
            common = self.children[element].intersection(other.children[element])
            if not common.empty:
                children[element] = common
        member = self.member and other.member
        return FieldSet(member, children) if member or children else NOTHING

    def difference(self, other: FieldSet) -> FieldSet:
        """Return the set without the paths of ``other``; the set itself if it has none of them."""
        children = self.children
        if not self.member and children.keys().isdisjoint(other.children):
            return self
        for element in children.keys() & other.children.keys():
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
        """Return the set without the paths at or below a path of ``other``; the set itself if it has none of them."""
        children = self.children
        if children.keys().isdisjoint(other.children):
            return self
        for element in children.keys() & other.children.keys():
            theirs = other.children[element]
            mine = self.children[element]
            rest = NOTHING if theirs.member else mine.without_subtrees(theirs)
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
        """Return the set with every field on the way to a member as a member."""
        children = {element: child.with_named_parents() for element, child in self.children.items()}
        for element, child in children.items():
            if element.startswith("f:") and child.children:
                child.member = True
        return FieldSet(self.member, children)

    def paths(self, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yield every path, sorted."""
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


def _of_no_part(*, member: bool) -> FieldSet:
    made = FieldSet(member)
    made.number = next(_NUMBERS)
    return made


def _shared(member: bool, parts: Mapping[Any, FieldSet], build: Callable[..., FieldSet]) -> FieldSet:
    """Return the shared set of these parts, by path element or by path. ``build`` makes it if it is not known."""
    # In a loop: to map the parts to their numbers takes twice the instructions for one or two of them.
    key: list[object] = [member]
    filled = ""
    for place, below in parts.items():
        key.append(place)
        key.append(below.number)
        filled = filled or below.element
    found = _SHARED.get(tuple(key))
    if found is None:
        return keep_set(tuple(key), build(parts, member=member))
    return FilledTemplate(found, filled) if filled else found


def known_set(key: tuple[object, ...], filled: str) -> FieldSet | None:
    """Return the shared set with a key, which has the numbers of its parts; None if it is not known. ``filled`` is the
    `FieldSet.element` of a part, if one has any."""
    found = _SHARED.get(key)
    return FilledTemplate(found, filled) if filled and found is not None else found


def keep_set(key: tuple[object, ...], made: FieldSet) -> FieldSet:
    """Keep a set for `known_set` if it is shared, and return it."""
    if made.number:
        template = made.template
        _SHARED.keep(key, template, template.weight)
    return made


FieldSets = dict[tuple[str, ...], FieldSet]
"""Sets by the paths below which they are."""


def _nested(sets: FieldSets, *, member: bool) -> FieldSet:
    """Build `FieldSet.at_paths`."""
    if () in sets:
        return sets[()]
    below: dict[str, FieldSets] = {}
    for (element, *rest), found in sets.items():
        below.setdefault(element, {})[tuple(rest)] = found
    return FieldSet.of({element: _nested(inner, member=False) for element, inner in below.items()}, member=member)


PLACEHOLDER: Final = "k:"
"""The element of a template that stands for one with a uid. No path element is written so."""
_UID: Final = 'k:{"uid":'
_encoded: Final = msgspec.json.encode


class FilledTemplate(FieldSet):
    """A template with an element in place of its placeholder.

    Its children are made when they are first read, and mostly they are not: memos use the number, and the JSON is put
    together from that of the template.
    """

    __slots__ = ("_children", "_template")

    def __init__(self, template: FieldSet, element: str) -> None:
        # Not the constructor of the base class: it would set the children, and what is read from the template.
        self.number = template.number
        self.element = element
        self._json = b""
        self._raw = None
        self._children: dict[str, FieldSet] | None = None
        self._template = template

    # Properties rather than `__getattr__`, with which the interpreter reads each attribute in a slower way.
    @property
    def template(self) -> FieldSet:
        return self._template

    @property
    def member(self) -> bool:  # type: ignore[override]  # it is never set
        return self._template.member

    @property
    def placeholder(self) -> tuple[str, ...]:  # type: ignore[override]  # as above
        return self._template.placeholder

    @property
    def is_tracked(self) -> bool:
        return self._template.is_tracked

    @is_tracked.setter
    def is_tracked(self, known: bool) -> None:
        self._template.is_tracked = known

    @property
    def children(self) -> dict[str, FieldSet]:  # type: ignore[override]  # it is never set
        if self._children is None:
            at, template = self.placeholder[0], self._template
            self._children = {
                (self.element if element == PLACEHOLDER else element): (
                    FilledTemplate(child, self.element) if element == at != PLACEHOLDER else child
                )
                for element, child in template.children.items()
            }
        return self._children

    @property
    def raw(self) -> RawJSON:
        """The set as ``fieldsV1``."""
        return self.expect_reading()

    def expect_reading(self) -> RawJSON:
        """Return `raw`. It refers to the set, so the set does not refer to it."""
        return self._raw or OwnJSON(self, self._json or self._encode())

    def _encode(self) -> bytes:
        template = self._template
        before, after = template._around
        if not before:
            before, _, after = template._encode().partition(_ENCODED_PLACEHOLDER)
            template._around = before, after
        encoded = self._json = before + _encoded(self.element) + after
        return encoded


class OwnJSON(RawJSON):
    """The JSON of a set, with the set: the next write of the object need not look for it."""

    __slots__ = ("fields",)

    fields: FieldSet
    # Most writes make one. Not to refuse a change takes a third of the instructions.
    __setattr__ = object.__setattr__  # type: ignore[assignment]  # mypy knows its arguments by position alone

    def __init__(self, fields: FieldSet, data: bytes) -> None:
        self.data = data
        self.written = msgspec.Raw(data)
        self.fields = fields

    def compact(self) -> bytes:
        return self.data


@cached_texts(4096)
def _key(element: str) -> bytes:
    return _encoded(element) + b":"


def _filled(raw: RawJSON) -> FieldSet | None:
    """Decode a set with exactly one element whose key is a uid; None for any other set."""
    parts = _ONE_UID.split(raw.data)
    template_of = _kept_template if len(raw.data) <= LARGEST_SHARED else _template
    template = template_of(parts[0], parts[2]) if len(parts) == 3 else None
    if template is None:
        return None
    made = FilledTemplate(template, f'k:{{"uid":"{parts[1].decode()}"}}')
    made._raw = raw  # its template is encoded as it was, so it would be, too
    return made


def _template(before: bytes, after: bytes) -> FieldSet | None:
    """Decode the template with this JSON around its placeholder; None if it is none or would be encoded otherwise."""
    raw = RawJSON(b'%b"%b"%b' % (before, PLACEHOLDER.encode(), after))
    try:
        root = FieldSet()
        root._read(raw.load(), lambda element: element == PLACEHOLDER or _is_element(element))
        root.member = False
        template = root.numbered()
    except (msgspec.DecodeError, AttributeError, InvalidElement):
        return None
    return template if template.placeholder and template.raw.data == raw.data else None


def _is_element(element: str) -> bool:
    """Return True for an element of a list, and False for one of a kind that is not known, which is left out.

    Raises:
        InvalidElement: it is malformed (structured-merge-diff, fieldpath/serialize-pe.go).
    """
    kind, rest = element[:1], element[2:]
    if element[1:2] != ":":
        raise InvalidElement(f"missing colon: {element}")
    if kind not in "vki":
        return False
    try:
        value = int(rest) if kind == "i" else msgspec.json.decode(rest)
    except ValueError as error:
        raise InvalidElement(f"{element}: {error}") from error
    if kind == "k" and not isinstance(value, dict):
        raise InvalidElement(f"{element}: no keys")
    return True


_kept_template: Final = remembered("apiserver.ownership.fieldset.template", size=KNOWN)(_template)
_ONE_UID: Final = re.compile(rb'"k:\{\\"uid\\":\\"([0-9a-f-]+)\\"\}"')
_ENCODED_PLACEHOLDER: Final = b'"%b"' % PLACEHOLDER.encode()
"""No path element contains it: quotes are escaped in them."""
_READ: Final[BoundedCache[bytes, FieldSet]] = BoundedCache(KNOWN, most_bytes=KNOWN_BYTES)
_SHARED: Final[BoundedCache[tuple[object, ...], FieldSet]] = BoundedCache(KNOWN, most_bytes=KNOWN_BYTES)
_NUMBERS: Final = count(1)
NOTHING: Final = _of_no_part(member=False)
"""The set without any path."""
ONE_FIELD: Final = _of_no_part(member=True)
"""The set of a path alone."""

# --- what a write changed -----------------------------------------------------------------------------------------

Changes = tuple[FieldSet, FieldSet]
"""The fields that a write set, first or again, and those that it removed."""
UNCHANGED: Final[Changes] = NOTHING, NOTHING
SET: Final[Changes] = ONE_FIELD, NOTHING


def changes_of(touched: dict[str, FieldSet], removed: dict[str, FieldSet]) -> Changes:
    """Return the changes of a value that was there before and is there now, by path element below it."""
    was_set = FieldSet.of(touched, member=False) if touched else NOTHING
    return was_set, FieldSet.of(removed, member=False) if removed else NOTHING


# --- fields without an owner --------------------------------------------------------------------------------------


@cache
def fields_at(paths: tuple[str, ...]) -> FieldSet:
    """Return the set of the fields at ``paths``, each with names joined by dots, as ``metadata.labels``."""
    fields = FieldSet()
    for path in paths:
        fields.insert(f"f:{name}" for name in path.split("."))
    return fields.numbered()


METADATA: Final = "f:metadata"
UNTRACKED: Final = fields_at(
    (
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    )
)
"""The fields that have no owner in any object."""
_UNTRACKED_METADATA: Final = UNTRACKED.children[METADATA].children.keys()


def tracked_part(fields: FieldSet) -> FieldSet:
    """Return the set without the fields that have no owner; the set itself if it has none of them."""
    if fields.is_tracked:
        return fields
    children = fields.children
    metadata = children.get(METADATA)
    has_some = metadata is not None and (metadata.member or not _UNTRACKED_METADATA.isdisjoint(metadata.children))
    if has_some or "f:kind" in children or "f:apiVersion" in children:
        return fields.difference(UNTRACKED)
    fields.is_tracked = True
    return fields
