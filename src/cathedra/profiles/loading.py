"""Loading of profiles, by name or from a file.

The profile ``h100-8`` has whole devices, ``h100-8-mig`` the same devices in all their partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml, write_yaml
from cathedra.api.nulls import convert
from cathedra.api.resource import DeviceClass
from cathedra.api.struct import from_dict, to_dict
from cathedra.profiles.expansion import expanded_pools
from cathedra.profiles.model import API_VERSION, KIND, PARTITIONED, HardwareProfile, ProfileError

_SUFFIX: Final = ".yaml"


@cache
def profile_names() -> tuple[str, ...]:
    """The names of the profiles that come with the program, sorted; those in parts behind those of whole devices."""
    names: list[str] = []
    for name in sorted(file.name.removesuffix(_SUFFIX) for file in _folder().iterdir() if file.name.endswith(_SUFFIX)):
        names.append(name)
        if _built_in(name).can_be_partitioned:
            names.append(name + PARTITIONED)
    return tuple(names)


def load_profile(name: str) -> HardwareProfile:
    """The profile of a name, or of a YAML file: what has a slash or ends in ``.yaml`` is a file.

    Raises:
        ProfileError: there is none, or the file is none.
    """
    if "/" in name or name.endswith((_SUFFIX, ".yml")):
        return read_profile(Path(name).expanduser())
    whole = name.removesuffix(PARTITIONED)
    profile = _built_in(whole) if (_folder() / f"{whole}{_SUFFIX}").is_file() else None
    if profile is None or (name != whole and not profile.can_be_partitioned):
        raise ProfileError(f"there is no profile {name!r}; there are {', '.join(profile_names())}, or a YAML file")
    return profile if name == whole else msgspec.structs.replace(profile, name=name, partitioned=True)


def read_profile(path: Path) -> HardwareProfile:
    """Return the profile in a YAML file.

    Raises:
        ProfileError: the file cannot be read, or is no profile; the text names the field.
    """
    try:
        profile = _parsed(path.read_bytes())
        # Errors in values of placeholders are found only when the templates are expanded.
        expanded_pools(profile, "node")
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from error
    except (DecodeError, msgspec.ValidationError, ProfileError) as error:
        raise ProfileError(f"{path}: {error}") from error
    return profile


@cache
def _built_in(name: str) -> HardwareProfile:
    return _parsed((_folder() / f"{name}{_SUFFIX}").read_bytes())


def _folder() -> Any:
    # start-up time: with a profile alone
    from importlib import resources

    return resources.files("cathedra.profiles") / "data"


def _parsed(text: bytes) -> HardwareProfile:
    document = read_yaml(text).value
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (API_VERSION, KIND):
        raise ProfileError(f"it must begin with apiVersion: {API_VERSION} and kind: {KIND}")
    metadata, spec = document.get("metadata"), document.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise ProfileError("it has no metadata or no spec")
    spec = dict(spec)
    classes = [_device_class(one) for one in spec.pop("deviceClasses", None) or ()]
    profile = convert({"name": metadata.get("name"), **spec}, HardwareProfile)
    return msgspec.structs.replace(profile, device_classes=tuple(classes))


def _device_class(one: Any) -> DeviceClass:
    if not isinstance(one, Mapping):
        raise ProfileError("spec.deviceClasses must be a list of DeviceClasses")
    return from_dict(DeviceClass, {key: value for key, value in one.items() if key not in ("apiVersion", "kind")})


# --- writing


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
