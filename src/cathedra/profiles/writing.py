"""Profiles as YAML, in the form in which they are read."""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.api.decoding import write_yaml
from cathedra.api.struct import to_dict
from cathedra.profiles.model import API_VERSION, KIND, HardwareProfile

__all__ = ["profile_document", "profile_yaml"]


def profile_document(profile: HardwareProfile) -> dict[str, Any]:
    """The profile as plain values, with ``apiVersion: cathedra.dev/v1``; what is empty is left out."""
    plain = msgspec.to_builtins(msgspec.structs.replace(profile, device_classes=()))
    spec = _full({key: value for key, value in plain.items() if key not in ("name", "partitioned")})
    classes = [to_dict(one) for one in profile.device_classes]
    if classes:
        pools = spec.pop("pools")
        spec |= {"deviceClasses": classes, "pools": pools}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": profile.name}, "spec": spec}


def profile_yaml(profile: HardwareProfile) -> bytes:
    """The file of the profile."""
    return write_yaml(profile_document(profile), sort_keys=False)


def _full(value: Any) -> Any:
    """Without empty tables, lists and texts; devices are left as they are."""
    if isinstance(value, dict):
        return {
            key: inner if key in ("devices", "device") else _full(inner)
            for key, inner in value.items()
            if inner not in ({}, [], (), "", None)
        }
    if isinstance(value, (list, tuple)):
        return [_full(inner) for inner in value]
    return value
