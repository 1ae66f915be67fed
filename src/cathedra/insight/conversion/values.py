"""What an object is in another version: v1beta1 has flat requests, and devices wrapped in ``basic``.

The same as the server's conversion (`cathedra.kinds.resource`), on plain values: nothing is defaulted, dropped or put
in another order, for the author has to recognise the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cathedra.api.jsonvalue import JSONObject

__all__ = [
    "CONVERTIBLE",
    "EXACTLY",
    "FLAT",
    "KEPT_OF_DEVICES",
    "KEPT_OF_REQUESTS",
    "VERSIONS",
    "WRAPPED",
    "in_version",
    "parts_of",
]

VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""The versions that can be asked for."""
CONVERTIBLE: Final = frozenset((*VERSIONS, "v1alpha3"))
"""The versions that are read: those of today's generation."""
EXACTLY: Final = "exactly"
WRAPPED: Final = "basic"
FLAT: Final = frozenset(("v1beta1", "v1alpha3"))
"""Versions in which requests are flat and devices wrapped."""
KEPT_OF_REQUESTS: Final = frozenset(("name", "firstAvailable"))
KEPT_OF_DEVICES: Final = frozenset(("name",))
_REQUESTS: Final = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
}
_DEVICES: Final = ("spec", "devices")


def parts_of(kind: str) -> tuple[str, ...]:
    """The path of the list whose elements look different in v1beta1: requests or devices; empty if there is none."""
    return _DEVICES if kind == "ResourceSlice" else _REQUESTS.get(kind, ())


def in_version(value: Mapping[str, Any], kind: str, old: str, new: str) -> JSONObject:
    """The object in version ``new`` of the group; ``value`` is unchanged."""
    made: JSONObject = {**value}
    if "apiVersion" in made:
        made["apiVersion"] = f"resource.k8s.io/{new}"
    path = parts_of(kind)
    if path and (old in FLAT) is not (new in FLAT):
        change = _change(kind, flat=new in FLAT)
        made = _at(made, path, change)
    if path == _DEVICES and old == "v1alpha3":
        made = _at(made, path, _with_capacities(wrapped=new in FLAT))
    return made


def _change(kind: str, *, flat: bool) -> Callable[[JSONObject], JSONObject]:
    if kind == "ResourceSlice":
        return (lambda one: _wrapped(one, KEPT_OF_DEVICES, WRAPPED, always=True)) if flat else _unwrapper(WRAPPED)
    return _unwrapper(EXACTLY) if flat else lambda one: _wrapped(one, KEPT_OF_REQUESTS, EXACTLY, always=False)


def _wrapped(one: JSONObject, kept: frozenset[str], name: str, *, always: bool) -> JSONObject:
    inner = {key: value for key, value in one.items() if key not in kept}
    outer = {key: value for key, value in one.items() if key in kept}
    return {**outer, name: inner} if inner or always else outer


def _unwrapper(name: str) -> Callable[[JSONObject], JSONObject]:
    def unwrapped(one: JSONObject) -> JSONObject:
        inner = one.get(name)
        outer = {key: value for key, value in one.items() if key != name}
        return {**outer, **inner} if isinstance(inner, dict) else outer

    return unwrapped


def _with_capacities(*, wrapped: bool) -> Callable[[JSONObject], JSONObject]:
    """v1alpha3 has bare quantities as capacities."""

    def change(device: JSONObject) -> JSONObject:
        holder: Any = device.get(WRAPPED) if wrapped else device
        capacity: Any = holder.get("capacity") if isinstance(holder, dict) else None
        if not isinstance(capacity, dict):
            return device
        changed: JSONObject = {name: one if isinstance(one, dict) else {"value": one} for name, one in capacity.items()}
        return {**device, WRAPPED: {**holder, "capacity": changed}} if wrapped else {**device, "capacity": changed}

    return change


def _at(value: JSONObject, path: Sequence[str], change: Callable[[JSONObject], JSONObject]) -> JSONObject:
    """``value`` with the elements of the list under ``path`` changed; what is no such list is left alone."""
    inner: Any = value.get(path[0])
    if len(path) > 1:
        return {**value, path[0]: _at(inner, path[1:], change)} if isinstance(inner, dict) else value
    if not isinstance(inner, list):
        return value
    return {**value, path[0]: [change(one) if isinstance(one, dict) else one for one in inner]}
