"""Defaults of single fields and lists, for the functions that fill in a kind.

Most objects come with everything filled in: what was written before is defaulted again with every change of it. So what
needs nothing is given back as it is, and is known to be unchanged without being compared.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, TypeVar

from cathedra.api.struct import KubeStruct, replace

K = TypeVar("K", bound=KubeStruct)


def absent(obj: Any, **defaults: object) -> dict[str, object]:
    """Return the defaults of those fields that ``obj`` leaves out."""
    return {name: value for name, value in defaults.items() if getattr(obj, name) in ("", None)}


def each(items: tuple[K, ...], default: Callable[[K], K]) -> tuple[K, ...]:
    """Return the items with their defaults; ``items`` itself if none of them needed any."""
    if not items:
        return items
    filled = tuple(map(default, items))
    return items if all(map(is_, filled, items)) else filled


def changed(obj: K, **fields: object) -> K:
    """``obj`` with other values in these fields; ``obj`` itself if it has these very values."""
    for name, value in fields.items():
        if getattr(obj, name) is not value:
            return replace(obj, **fields)
    return obj
