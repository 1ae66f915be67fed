"""Loading of profiles, by name or from a file.

The profile ``h100-8`` has whole devices, ``h100-8-mig`` the same devices in all their partitions.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml, write_yaml
from cathedra.api.nulls import convert
from cathedra.api.quantity import Quantity, QuantityError
from cathedra.api.resource import CounterSet, Device, DeviceClass
from cathedra.api.struct import KubeStruct, from_dict, to_dict
from cathedra.profiles.model import (
    API_VERSION,
    KIND,
    PARTITIONED,
    Group,
    HardwareProfile,
    PartitionKind,
    Partitions,
    PoolTemplate,
    ProfileError,
)

_SUFFIX: Final = ".yaml"


@cache
def profile_names() -> tuple[str, ...]:
    """Return the names of the profiles that the program includes, sorted; partitioned ones follow whole devices."""
    names: list[str] = []
    for name in sorted(file.name.removesuffix(_SUFFIX) for file in _folder().iterdir() if file.name.endswith(_SUFFIX)):
        names.append(name)
        if _built_in(name).can_be_partitioned:
            names.append(name + PARTITIONED)
    return tuple(names)


def load_profile(name: str) -> HardwareProfile:
    """Return the profile of a name, or of a YAML file: a name with a slash or the ending ``.yaml`` is a file.

    Raises: ProfileError: there is no such profile, or the file is no profile.
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
    """Return the profile as plain values, with ``apiVersion: cathedra.dev/v1`` and without empty fields."""
    plain = msgspec.to_builtins(msgspec.structs.replace(profile, device_classes=()))
    spec = _full({key: value for key, value in plain.items() if key not in ("name", "partitioned")})
    classes = [to_dict(one) for one in profile.device_classes]
    if classes:
        pools = spec.pop("pools")
        spec |= {"deviceClasses": classes, "pools": pools}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": profile.name}, "spec": spec}


def profile_yaml(profile: HardwareProfile) -> bytes:
    """Return the file of the profile."""
    return write_yaml(profile_document(profile), sort_keys=False)


def _full(value: Any) -> Any:
    """Return a value without empty tables, lists and texts; devices are not changed."""
    if isinstance(value, dict):
        return {
            key: inner if key in ("devices", "device") else _full(inner)
            for key, inner in value.items()
            if inner not in ({}, [], (), "", None)
        }
    if isinstance(value, (list, tuple)):
        return [_full(inner) for inner in value]
    return value


# Expansion of a profile for one node: templates with their placeholders filled in.
#
# Placeholders are ``{node}`` (the node's name), ``{n}`` (the number of the repetition of its group, from 0), the
# group's own values, ``{uuid}`` and ``{serial}`` (derived from the node's name and the repetition, so they are stable
# and unique; ``{uuid:LABEL}`` is derived from the node's name and the label). If an attribute has an ``int``, the
# resulting text is parsed as one. ``{{`` and ``}}`` stand for braces.

S = TypeVar("S", bound=KubeStruct)

Values = Mapping[str, str | int]

_TOKEN: Final = re.compile(r"\{\{|\}\}|\{(?P<name>\w+)(?::(?P<label>[\w-]+))?\}", re.ASCII)
_IDENTITIES: Final = uuid.UUID("c0f7b9e4-36a5-4c55-9d6c-5f2a8a1f3f37")
_SERIAL_DIGITS: Final = 8


class NodePool(msgspec.Struct, frozen=True):
    """A pool of one node: its driver, devices in their order, and the counter sets that they consume."""

    driver: str
    name: str
    devices: tuple[Device, ...]
    counter_sets: tuple[CounterSet, ...]


def expanded_pools(profile: HardwareProfile, node: str) -> tuple[NodePool, ...]:
    """Return the pools of a node of that name.

    Raises: ProfileError: a placeholder has no value, or the result is no device.
    """
    return tuple(_pool(profile, pool, node) for pool in profile.pools)


def node_labels(profile: HardwareProfile, node: str) -> dict[str, str]:
    """Return the labels of a node of that name, without those that all nodes have."""
    values = _Placeholders({"node": node}, node, "node")
    return {key: values.filled(value) for key, value in profile.node.labels.items()}


def node_capacity(profile: HardwareProfile) -> dict[str, str]:
    """Return the resources of such a node, by name."""
    return dict(profile.node.capacity)


def escaped(text: str) -> str:
    """Return a template whose expansion is ``text``."""
    return text.replace("{", "{{").replace("}", "}}")


def _pool(profile: HardwareProfile, pool: PoolTemplate, node: str) -> NodePool:
    devices: list[Device] = []
    counters: list[CounterSet] = []
    for place, group in enumerate(pool.groups):
        for number in range(group.count):
            values = _values(group, node, number, f"{pool.driver}/{place}")
            partitions = group.partitions if profile.partitioned else None
            if partitions is None:
                devices += [_device(one, values) for one in group.devices]
                counters += [_made(CounterSet, values.filled(one)) for one in group.shared_counters]
                continue
            counters.append(_counter_set(partitions, values))
            devices += _forms(group, partitions, values)
    name = _Placeholders({"node": node}, node, "pool").filled(pool.name)
    return NodePool(pool.driver, name, tuple(devices), tuple(counters))


def _values(group: Group, node: str, number: int, place: str) -> _Placeholders:
    own: dict[str, str | int] = {"node": node, "n": number}
    for name, given in group.values.items():
        if len(given) != group.count:
            raise ProfileError(f"{name!r} has {len(given)} values for {group.count} repetitions")
        own[name] = given[number]
    return _Placeholders(own, node, f"{place}/{number}")


def _forms(group: Group, partitions: Partitions, values: _Placeholders) -> Iterator[Device]:
    """Return the partitions of a device: itself and its parts, by name in the driver's order."""
    counter_set = values.filled(partitions.counter_set)
    made = [part for kind in partitions.kinds for part in _parts(kind, partitions, counter_set, values)]
    if partitions.whole:
        amounts = _largest(partitions)
        consumed = _consumed(partitions, amounts, range(partitions.slices))
        for template in group.devices:
            whole = {**template, **_amounts(amounts, counter_set, consumed)}
            made.append(_device(whole, values))
    yield from sorted(made, key=lambda device: device.name)


def _parts(kind: PartitionKind, partitions: Partitions, counter_set: str, values: _Placeholders) -> Iterator[Device]:
    for start in kind.starts:
        consumed = _consumed(partitions, kind.amounts, range(start, start + kind.size))
        template = {**partitions.device, **_amounts(kind.amounts, counter_set, consumed)}
        yield _device(template, values.including({**kind.values, "start": start}))


def _amounts(amounts: Values, counter_set: str, consumed: Mapping[str, str]) -> dict[str, Any]:
    return {
        "capacity": {name: {"value": str(amount)} for name, amount in amounts.items()},
        "consumesCounters": [
            {
                "counterSet": counter_set,
                "counters": {name: {"value": amount} for name, amount in consumed.items()},
            }
        ],
    }


def _counter_set(partitions: Partitions, values: _Placeholders) -> CounterSet:
    """Return the counters of the whole device: the amounts of its largest part, and every slice once."""
    amounts = _consumed(partitions, _largest(partitions), range(partitions.slices))
    return _made(
        CounterSet,
        {
            "name": values.filled(partitions.counter_set),
            "counters": {name: {"value": amount} for name, amount in amounts.items()},
        },
    )


def _consumed(partitions: Partitions, amounts: Values, slices: Iterable[int]) -> dict[str, str]:
    counters = {one.counter: str(amounts[one.capacity]) for one in partitions.amounts}
    return counters | {partitions.slice_counter.replace("{slice}", str(number)): "1" for number in slices}


def _largest(partitions: Partitions) -> dict[str, str | int]:
    """Return the largest amount of each capacity that a part has."""

    def amount(given: str | int) -> Quantity:
        return Quantity(str(given))

    return {
        one.capacity: max((kind.amounts[one.capacity] for kind in partitions.kinds), key=amount)
        for one in partitions.amounts
    }


def _device(template: Mapping[str, Any], values: _Placeholders) -> Device:
    return _made(Device, values.filled(template))


def _made(kind: type[S], plain: Any) -> S:
    try:
        return from_dict(kind, plain)
    except (msgspec.ValidationError, QuantityError) as error:
        name = plain.get("name", "?") if isinstance(plain, dict) else "?"
        raise ProfileError(f"{kind.__name__} {name}: {error}") from error


class _Placeholders:
    """Values of the placeholders for one device."""

    def __init__(self, values: Values, node: str, place: str) -> None:
        self._values = values
        self._node = node
        self._place = place

    def including(self, values: Values) -> _Placeholders:
        """Return a copy with more values."""
        return _Placeholders({**self._values, **values}, self._node, self._place)

    def filled(self, value: Any) -> Any:
        """``value`` with every placeholder in its texts replaced.

        Raises:
            ProfileError: a placeholder has no value.
        """
        if isinstance(value, str):
            return _TOKEN.sub(self._text, value)
        if isinstance(value, Mapping):
            return {key: self._member(key, inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.filled(inner) for inner in value]
        return value

    def _member(self, key: str, value: Any) -> Any:
        filled = self.filled(value)
        return int(filled) if key == "int" and isinstance(filled, str) and filled.isdecimal() else filled

    def _text(self, token: re.Match[str]) -> str:
        name, label = token["name"], token["label"]
        if name is None:
            return token[0][0]
        if name in ("uuid", "serial"):
            identity = uuid.uuid5(_IDENTITIES, f"{self._node}/{label or self._place}")
            return str(identity) if name == "uuid" else f"{identity.int % 10**_SERIAL_DIGITS:0{_SERIAL_DIGITS}d}"
        if label or name not in self._values:
            known = ", ".join(sorted({"uuid", "serial", *self._values}))
            raise ProfileError(f"{token[0]} stands for nothing; known are {known}")
        return str(self._values[name])
