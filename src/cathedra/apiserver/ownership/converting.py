"""Ownership of kinds whose versions a webhook converts.

Who owns which fields is worked out in one go, and only on the way does it show which other versions have a part in it
and what has to be seen in them. So the work is begun again after each conversion that it turns out to need; a manager's
version needs two, of the old state and of the new one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cathedra.api.status import StatusError
from cathedra.api.struct import encode, from_dict
from cathedra.apiserver.ownership.managers import OtherViews
from cathedra.apiserver.ownership.tracking import tracked, untracked
from cathedra.apiserver.ownership.views import View
from cathedra.apiserver.patches.schema import struct_shape, without_nulls
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import ObjectConversion

__all__ = ["tracked_converting", "with_other_versions"]

T = TypeVar("T")


class _Missing(Exception):
    """Both states are needed in another version."""

    def __init__(self, api_version: str, values: dict[str, Any]) -> None:
        self.api_version, self.values = api_version, values
        super().__init__(f"needed in {api_version}")


def with_other_versions(call: Call, live: Any, work: Callable[[OtherViews | None], T]) -> T | Awaitable[T]:
    """What ``work`` makes of the views in other versions; None is given where no webhook converts, and then the result
    is there at once.

    Raises:
        StatusError: 500, the webhook could not convert.
    """
    conversion = call.definition.conversion
    return work(None) if conversion is None else _converting(conversion, call, live, work)


def tracked_converting(call: Call, live: Any, new: Any, now: float, spelled: bytes = b"") -> Any | Awaitable[Any]:
    """`tracked`, also where a webhook converts. If it fails, the object goes on without managed fields."""
    if call.definition.conversion is None:
        return tracked(call, live, new, now, spelled)
    return _tracked(call.definition.conversion, call, live, new, now, spelled)


async def _tracked(conversion: ObjectConversion, call: Call, live: Any, new: Any, now: float, spelled: bytes) -> Any:
    try:
        return await _converting(conversion, call, live, lambda views: tracked(call, live, new, now, spelled, views))
    except StatusError:
        return untracked(new)


async def _converting(conversion: ObjectConversion, call: Call, live: Any, work: Callable[[OtherViews | None], T]) -> T:
    known: dict[str, tuple[View, View] | None] = {}

    def seen(api_version: str, values: dict[str, Any]) -> tuple[View, View] | None:
        if api_version not in known:
            raise _Missing(api_version, values)
        return known[api_version]

    while True:
        try:
            return work(seen)
        except _Missing as missing:
            known[missing.api_version] = await _both(conversion, call, live, missing)


async def _both(conversion: ObjectConversion, call: Call, live: Any, missing: _Missing) -> tuple[View, View] | None:
    """The old and the new state in another version; None if the kind has no such version."""
    kind = call.version.type
    new = from_dict(kind, without_nulls(missing.values, struct_shape(kind)))
    try:
        after = await conversion.between(new, call.api_version, missing.api_version)
        if live is None:
            before = type(after)()
        else:
            before = await conversion.between(live, call.api_version, missing.api_version)
    except KeyError:
        return None
    shape = struct_shape(type(after))
    return View(encode(before), shape), View(encode(after), shape)
