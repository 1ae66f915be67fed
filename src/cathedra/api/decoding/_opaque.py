"""Opaque JSON inside objects: its bytes are kept as they were sent (docs/spec/api.md §2.0).

msgspec hands over parsed values, so the bytes are fetched by a second, much narrower decoding: of a skeleton that has
only the fields on the way to opaque ones. Bodies without any pay next to nothing. The same narrow look finds lists that
were spelled out empty, where that means something.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import GenericAlias
from typing import Any, Final

import msgspec

from cathedra.api.struct import EMPTY_LIST, KubeStruct, RawJSON, json_names, replace


@cache
def _skeleton(kind: type[KubeStruct]) -> tuple[Any, tuple[bytes, ...]] | None:
    """Return a struct with just the fields of ``kind`` that lead to opaque JSON, and the quoted names of those that
    hold it; None if none does."""
    skeleton = _build(kind, frozenset())
    return None if skeleton is None else (skeleton, tuple(sorted(_holding(skeleton))))


def _holding(skeleton: Any) -> set[bytes]:
    names: set[bytes] = set()
    for field in msgspec.structs.fields(skeleton):
        below = list(_structs(field.type))
        if not below:
            names.add(f'"{field.encode_name}"'.encode())
        for inner in below:
            names |= _holding(inner)
    return names


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _structs(part)


def _build(kind: type[KubeStruct], above: frozenset[type]) -> Any:
    # Types that contain themselves have opaque parts only where the outer one has them; without this the walk never
    # ends.
    if kind in above:
        return None
    names = json_names(kind)
    hints = typing.get_type_hints(kind)
    fields: list[tuple[str, Any, Any]] = []
    for attribute in kind.__struct_fields__:
        inner = _leading(hints[attribute], above | {kind})
        if inner is not None:
            fields.append((attribute, _or_null(inner), None))
    if not fields:
        return None
    rename = {attribute: names[attribute] for attribute, _, _ in fields}
    return msgspec.defstruct(f"{kind.__name__}Opaque", fields, rename=rename)


def _or_null(annotation: Any) -> Any:
    """Raw JSON may be ``null`` by itself; everything else gets the option."""
    # Nulls in a body must not end this second decoding: the first one has accepted them.
    return annotation if annotation is msgspec.Raw else annotation | None


def _leading(annotation: Any, above: frozenset[type]) -> Any:
    """Return the annotation's skeleton; None if no opaque JSON is below it."""
    origin = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        for option in typing.get_args(annotation):
            inner = _leading(option, above)
            if inner is not None:
                return inner
        return None
    if origin is tuple:
        inner = _leading(typing.get_args(annotation)[0], above)
        return None if inner is None else GenericAlias(list, (_or_null(inner),))
    if origin is dict:
        inner = _leading(typing.get_args(annotation)[1], above)
        return None if inner is None else GenericAlias(dict, (str, _or_null(inner)))
    if annotation is RawJSON:
        return msgspec.Raw
    if isinstance(annotation, type) and issubclass(annotation, KubeStruct):
        return _build(annotation, above)
    return None


@cache
def _decoder(skeleton: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(skeleton)


def restore_opaque(obj: Any, body: bytes) -> Any:
    """``obj`` with the bytes of ``body`` in its opaque parts."""
    kind: Any = type(obj)
    built = _skeleton(kind)
    if built is None:
        return obj
    skeleton, names = built
    if b"\\" not in body:  # else a name may be spelled in many ways
        for name in names:
            if name in body:
                break
        else:
            return obj
    return _merged(obj, _decoder(skeleton).decode(body))


def _merged(obj: Any, found: Any) -> Any:
    if isinstance(obj, RawJSON):
        return RawJSON(bytes(found)) if isinstance(found, msgspec.Raw) else obj
    if isinstance(obj, tuple):
        if not found or not obj:
            return obj  # A list of the body that the release does not know is absent from the object.
        # Strict: both decodings read the same body, so lists of different lengths would be a defect that mixes up
        # elements.
        merged = tuple(_merged(item, other) for item, other in zip(obj, found, strict=True))
        # The same object where nothing changed: memos of later steps find it by identity.
        return obj if all(a is b for a, b in zip(merged, obj, strict=True)) else merged
    if isinstance(obj, dict):
        if not found:
            return obj
        return {key: _merged(item, found.get(key)) for key, item in obj.items()}
    if obj is None or found is None:
        return obj
    changes = {}
    for attribute in found.__struct_fields__:
        value, other = getattr(obj, attribute), getattr(found, attribute)
        if other is None or value is None:
            continue
        merged = _merged(value, other)
        if merged is not value:
            changes[attribute] = merged
    return replace(obj, **changes) if changes else obj


# --- lists that are spelled out empty

_EMPTY: Final = re.compile(rb":\s*\[\s*\]")
_LISTS: Final = ("ints", "bools", "strings", "versions")
_WITHOUT_DEVICES: Final = frozenset({"cathedra.api.core.resource_v1alpha1", "cathedra.api.core.resource_v1alpha2"})
"""Modules of versions whose kinds have the names of later ones, and none of the lists that matter."""


def restore_empty_lists(obj: Any, body: bytes) -> Any:
    """Return ``obj`` with `EMPTY_LIST` where the body has an explicit empty list and Kubernetes distinguishes it from
    an absent one."""
    # By name, so that all versions of a kind are found with one entry.
    restore = _RESTORERS.get(type(obj).__name__)
    # The search costs a microsecond; parsing the body once more would cost as much as decoding it.
    if restore is None or not _EMPTY.search(body) or type(obj).__module__ in _WITHOUT_DEVICES:
        return obj
    return restore(obj, _outlined(body))


def _outlined(body: bytes) -> Any:
    """Decode a body again, for its lists and maps only. If a number is too large, all numbers become texts."""
    try:
        return msgspec.json.decode(body)
    except msgspec.ValidationError:
        # Numbers are not needed here, and Python refuses to convert thousands of digits.
        return json.loads(body, parse_int=str, parse_float=str)


def _marked(obj: Any, values: Any, **lists: str) -> Any:
    changes = {
        attribute: EMPTY_LIST
        for attribute, name in lists.items()
        if hasattr(obj, attribute) and isinstance(values, Mapping) and values.get(name) == []
    }
    return replace(obj, **changes) if changes else obj


def _slice(obj: Any, values: Mapping[str, Any]) -> Any:
    spec, values = obj.spec, values.get("spec") or {}
    items = values.get("devices") or ()
    devices = tuple(_device(device, item) for device, item in zip(spec.devices, items, strict=True))
    selector = _with_terms(spec.node_selector, values.get("nodeSelector"))
    spec = replace(spec, devices=devices, node_selector=selector)
    return replace(obj, spec=_marked(spec, values, devices="devices", shared_counters="sharedCounters"))


def _device(device: Any, values: Any) -> Any:
    if not isinstance(values, Mapping):
        return device
    if hasattr(device, "basic"):
        return device if device.basic is None else replace(device, basic=_attributed(device.basic, values.get("basic")))
    return _attributed(device, values)


def _with_terms(selector: Any, values: Any) -> Any:
    return selector if selector is None else _marked(selector, values, node_selector_terms="nodeSelectorTerms")


def _with_conditions(holder: Any, values: Any) -> Any:
    """Return ``holder`` with a mark on an explicit empty list of binding conditions, if the other of the two lists has
    elements: Kubernetes refuses that."""
    marked = _marked(
        holder,
        values,
        binding_conditions="bindingConditions",
        binding_failure_conditions="bindingFailureConditions",
    )
    return marked if bool(holder.binding_conditions) != bool(holder.binding_failure_conditions) else holder


def _attributed(holder: Any, values: Any) -> Any:
    given = (values or {}).get("attributes") or {}
    names = {name: name for name in _LISTS}
    holder = _with_conditions(holder, values)
    return replace(
        holder,
        node_selector=_with_terms(holder.node_selector, (values or {}).get("nodeSelector")),
        attributes={key: _marked(value, given.get(key), **names) for key, value in holder.attributes.items()},
    )


def _claim(obj: Any, values: Mapping[str, Any]) -> Any:
    return replace(obj, spec=_claim_spec(obj.spec, values.get("spec") or {}), status=_claim_status(obj.status, values))


def _claim_status(status: Any, values: Mapping[str, Any]) -> Any:
    if status.allocation is None:
        return status
    devices = status.allocation.devices
    items = _inside(values, "status", "allocation", "devices", "results")
    results = tuple(
        _with_conditions(result, item) for result, item in zip(devices.results, items or (), strict=bool(items))
    )
    if not results:
        return status
    return replace(status, allocation=replace(status.allocation, devices=replace(devices, results=results)))


def _inside(values: Any, *names: str) -> Any:
    for name in names:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _template(obj: Any, values: Mapping[str, Any]) -> Any:
    inner = _inside(values, "spec", "spec") or {}
    return replace(obj, spec=replace(obj.spec, spec=_claim_spec(obj.spec.spec, inner)))


def _claim_spec(spec: Any, values: Mapping[str, Any]) -> Any:
    requests = spec.devices.requests
    items = (values.get("devices") or {}).get("requests") or ()
    if not requests or not hasattr(requests[0], "device_class_name"):
        return spec
    marked = tuple(
        _marked(request, item, selectors="selectors", tolerations="tolerations", derived_attributes="derivedAttributes")
        for request, item in zip(requests, items, strict=True)
    )
    return replace(spec, devices=replace(spec.devices, requests=marked))


def _pod(obj: Any, values: Mapping[str, Any]) -> Any:
    if obj.spec.resources is None:
        return obj
    marked = _marked(obj.spec.resources, _inside(values, "spec", "resources"), claims="claims")
    return replace(obj, spec=replace(obj.spec, resources=marked))


_RESTORERS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "Pod": _pod,
    "ResourceSlice": _slice,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
}
