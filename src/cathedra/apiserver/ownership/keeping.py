"""The fields of an object that a patch leaves as they are, so that they need not be read again.

Most patches change one field of a status. The rest is there as an object already, and reading it from its values would
give the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from cathedra.api.decoding import KINDS_WITH_SCHEMAS
from cathedra.api.goform import go_values
from cathedra.api.struct import KubeStruct, from_dict, json_names, replace
from cathedra.apiserver.ownership.views import View, doubtful_fields, is_plain
from cathedra.apiserver.patches.schema import StructShape, without_nulls
from cathedra.apiserver.request import Call

__all__ = ["kept_fields", "read_beside", "with_kept"]

K = TypeVar("K", bound=KubeStruct)


def kept_fields(call: Call, live: View, after: dict[str, Any]) -> frozenset[str]:
    """The fields of the top level, metadata aside, whose values are the very ones of ``live`` in ``after``."""
    if not isinstance(live.shape, StructShape) or call.gvk.kind in KINDS_WITH_SCHEMAS:
        return frozenset()
    same = (key for key, value in live.value.items() if key != "metadata" and after.get(key) is value)
    return frozenset(key for key in same if live.is_plain(key))


def with_kept(made: K, kept: frozenset[str], live: K) -> K:
    """What was read, beside what is kept of the live object of the same version."""
    if not kept:
        return made
    names = json_names(type(made))
    return replace(made, **{name: getattr(live, name) for name, key in names.items() if key in kept})


def read_beside(live: K, before: Mapping[str, Any], after: Mapping[str, Any], shape: StructShape) -> K | None:
    """The struct that ``after`` describes, where ``before`` are values of ``live`` and what is the very same in both is
    not read again; fields of which neither says anything stay as they are. What ``before`` lacks is made of texts
    alone, as what has a form is. None: a value that was left alone is not plain, so all have to be read.

    Raises:
        msgspec.ValidationError, ValueError: what is new cannot be read.
    """
    attributes, doubtful = _attributes(type(live)), doubtful_fields(shape)
    unread: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for key, value in after.items():
        if key not in before:
            texts[key] = value
            continue
        was = before[key]
        if value is was:
            if key in doubtful and not is_plain(value, doubtful[key]):
                return None
            continue
        inner, held = shape.fields.get(key), getattr(live, attributes[key])
        if type(was) is dict and type(inner) is StructShape and held is not None:
            made = read_beside(held, was, value, inner)
            if made is None:
                return None
            changes[attributes[key]] = made
        else:
            unread[key] = value
    if unread:
        texts |= go_values(without_nulls(unread, shape))
    if texts:
        read = from_dict(type(live), texts)
        for key in texts:
            changes[attributes[key]] = getattr(read, attributes[key])
    return replace(live, **changes) if changes else live


@cache
def _attributes(kind: type[KubeStruct]) -> dict[str, str]:
    """JSON name → attribute name."""
    return {name: attribute for attribute, name in json_names(kind).items()}
