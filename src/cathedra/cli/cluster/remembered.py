"""Options of a cluster, stored at its start and valid until they are given again.

Precedence: the command line, the file of ``--config``, the data directory, the default. A file of ``--config`` replaces
everything that is stored.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.cli.configuration import gate_overrides
from cathedra.cli.options import CLUSTER, RELEASE, REMEMBERED, CommandOption
from cathedra.cli.terminal import meant
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import DEFAULT_NAME, Description, check_name, directory_of, read_description
from cathedra.releases import FeatureGates

_RETIRED: Final = frozenset({"processes"})
"""Options that earlier versions had. They wrote every option into the description, also with its default value."""


class WantedCluster(msgspec.Struct, frozen=True):
    """The cluster that a command line means."""

    arguments: argparse.Namespace
    """All options with their values."""
    description: Description
    """Description to store once the cluster is ready."""
    kept: Description | None
    """Description stored before; None at the first start."""
    changes: tuple[str, ...]
    """Differences from the stored description, one text each."""


def wanted_cluster(arguments: argparse.Namespace) -> WantedCluster:
    """Complete the options of ``cathedra up`` with those that are kept.

    Raises:
        InvalidOption: a file is wrong, or the data directory belongs to a cluster of another name.
    """
    file: Path | None = getattr(arguments, "config", None)
    described = read_description(file.expanduser()) if file else None
    asked = check_name(arguments.name) if arguments.name else (described.name if described else "")
    chosen: Path = getattr(arguments, "data_dir", None) or directory_of(asked or DEFAULT_NAME)
    data = DataDir(chosen.expanduser().absolute())
    kept = _kept(data)
    if kept is not None and asked and kept.name and asked != kept.name:
        raise InvalidOption(f"{data.path} holds the cluster {kept.name!r}; choose another --data-dir for {asked!r}")
    source, origin = (described, file) if described is not None else (kept or Description(), data.description)
    _check_fields(source.spec, origin)
    complete = argparse.Namespace(**vars(arguments))
    complete.name = asked or (kept.name if kept else "") or DEFAULT_NAME
    complete.data_dir = data.path
    for option in CLUSTER:
        if hasattr(complete, option.attribute):
            continue
        name = field_name(option)
        remembered = option in REMEMBERED and name in source.spec
        value = _read(option, source.spec[name], origin) if remembered else option.absent
        setattr(complete, option.attribute, value)
    if complete.from_dump is not None and not hasattr(arguments, "nodes") and "nodes" not in source.spec:
        complete.nodes = ["0"]  # the dump has nodes
    spec = {field_name(option): _written(option, getattr(complete, option.attribute)) for option in REMEMBERED}
    spec = {name: value for name, value in spec.items() if value not in (None, "", [], {})}
    return WantedCluster(complete, Description(complete.name, spec), kept, _changes(kept, spec))


def remembered_gates(data: DataDir) -> FeatureGates:
    """Return the gates of the cluster that was last started on ``data``; the newest release's where none is remembered.

    Raises:
        InvalidOption: the file that remembers it is wrong.
    """
    kept = _kept(data) or Description()
    release, overrides = (
        _read(option, kept.spec[name], data.description) if (name := field_name(option)) in kept.spec else option.absent
        for option in RELEASE
    )
    return FeatureGates.for_release(release, gate_overrides(overrides))


def _kept(data: DataDir) -> Description | None:
    """Return the description that the last start wrote, without the fields that only earlier versions knew."""
    if not data.description.exists():
        return None
    kept = read_description(data.description)
    return Description(kept.name, {name: value for name, value in kept.spec.items() if name not in _RETIRED})


def field_name(option: CommandOption) -> str:
    """Return the option's name in a file: ``--gpu-memory`` is ``gpuMemory``."""
    first, *rest = option.name.removeprefix("--").split("-")
    return first + "".join(word.capitalize() for word in rest)


def _changes(kept: Description | None, spec: Mapping[str, Any]) -> tuple[str, ...]:
    if kept is None:
        return ()
    absent = {field_name(option): _written(option, option.absent) for option in REMEMBERED}
    names = [name for name in absent if kept.spec.get(name, absent[name]) != spec.get(name, absent[name])]
    return tuple(
        f"{name}: {_shown(kept.spec.get(name, absent[name]))} → {_shown(spec.get(name, absent[name]))}"
        for name in names
    )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_shown(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def _check_fields(spec: Mapping[str, Any], origin: Path | None) -> None:
    known = [field_name(option) for option in REMEMBERED]
    for name in spec:
        if name not in known:
            hint = meant(name, known) or f"; known are {', '.join(known)}"
            raise InvalidOption(f"{origin}: spec.{name} is unknown{hint}")


def _written(option: CommandOption, value: Any) -> Any:
    """Return an option's value as it is written to a file."""
    if option.table:
        entries = value if option.repeatable else [entry for entry in (value or "").split(",") if entry]
        return {name.strip(): _plain(text.strip()) for name, _, text in (entry.partition("=") for entry in entries)}
    if option.counts and len(value or ()) == 1 and value[0].isdecimal():
        return int(value[0])
    return str(value.expanduser().absolute()) if isinstance(value, Path) else value


def _plain(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text.lower(), text)


def _read(option: CommandOption, value: Any, origin: Path | None) -> Any:
    """Return a value of a file as the command line would give it.

    Raises:
        InvalidOption: it has the wrong type.
    """
    where = f"{origin}: spec.{field_name(option)}"
    if option.table:
        if not isinstance(value, dict) or not all(isinstance(inner, (str, int, float)) for inner in value.values()):
            raise InvalidOption(f"{where} must be a table of names and values, got {value!r}")
        entries = [f"{name}={_shown(inner)}" for name, inner in value.items()]
        return entries if option.repeatable else ",".join(entries)
    if option.type is None:
        if not isinstance(value, bool):
            raise InvalidOption(f"{where} must be true or false, got {value!r}")
        return value
    if option.counts and isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]
    if option.counts and not isinstance(value, list):
        raise InvalidOption(f"{where} must be a whole number or a list of groups, got {value!r}")
    if option.repeatable:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise InvalidOption(f"{where} must be a list of texts, got {value!r}")
        return value
    if option.type is int and (not isinstance(value, int) or isinstance(value, bool)):
        raise InvalidOption(f"{where} must be a whole number, got {value!r}")
    if option.type is not int and not isinstance(value, str):
        raise InvalidOption(f"{where} must be a text, got {value!r}; put it in quotes")
    if option.choices and value not in option.choices:
        raise InvalidOption(f"{where} must be one of {', '.join(option.choices)}, got {value!r}")
    # As on a command line, the type also brings a value into its form: v1.36 is 1.36.
    return value if option.type in (int, str) else option.type(value)
