"""Directories of a user's clusters, and the one that a command means.

The default cluster is in the state directory itself, named ones are below it. Clusters with a ``--data-dir`` of their
own are elsewhere; the state directory has a link to each, so that they can be listed and selected.

Each directory has a description of its cluster, a versioned YAML file. ``--config`` reads the same form. The fields of
the spec are the options of ``cathedra up`` in camel case; the command has their types.

    apiVersion: cathedra.dev/v1
    kind: Cluster
    metadata:
      name: dev
    spec:
      nodes: 2
      gpus: 4
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml, write_yaml
from cathedra.api.formats import dns_label
from cathedra.client.kubeconfig import CurrentContext, KubeconfigError, current_context
from cathedra.cluster.config import InvalidOption, default_data_dir
from cathedra.cluster.data.datadir import DataDir
from cathedra.files.atomic import write_durable
from cathedra.files.private import private_directory

DEFAULT_NAME: Final = "cathedra"
CLUSTERS: Final = "clusters"
"""The folder of the named clusters."""
ELSEWHERE: Final = "elsewhere"
"""The folder of the links to data directories outside of the state directory."""
BESIDE: Final = (CLUSTERS, ELSEWHERE)
"""Entries of the default cluster's directory that are not its own."""


def context_name(name: str, data_dir: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return the kubeconfig context of a cluster; outside of the state directory it has a part of its own."""
    if data_dir == _absolute(directory_of(name, environment)):
        return name if name == DEFAULT_NAME else f"cathedra-{name}"
    return own_context(name, data_dir)


def own_context(name: str, data_dir: Path) -> str:
    """Return a context that no other data directory has."""
    # Of a cluster without a name the directory's is the one that its user knows.
    words = re.sub(r"[^a-z0-9]+", "-", data_dir.name.lower()).strip("-") if name == DEFAULT_NAME else name
    return "-".join(filter(None, ("cathedra", words[:MAX_NAME], _digest(data_dir)[:6])))


def directory_of(name: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return the data directory of the cluster of that name; it need not exist.

    Raises:
        InvalidOption: no cluster may be called so.
    """
    home = default_data_dir(environment)
    return home if check_name(name) == DEFAULT_NAME else home / CLUSTERS / name


def kept_description(data: DataDir) -> Description:
    """Return the description that a cluster keeps; an empty one if it keeps none.

    Raises:
        InvalidOption: the file is wrong.
    """
    return read_description(data.description) if data.description.exists() else Description()


# --- all clusters


def known_directories(environment: Mapping[str, str] | None = None) -> Iterator[DataDir]:
    """Yield the data directories that have been used: the default cluster's, the named ones', those elsewhere."""
    home = _absolute(default_data_dir(environment))
    for path in (home, *_entries(home / CLUSTERS), *_elsewhere(home)):
        data = DataDir(path)
        if data.exists():
            yield data


def note_elsewhere(data_dir: Path, environment: Mapping[str, str] | None = None) -> None:
    """Record a data directory, if it is outside of the state directory, so that `known_directories` yields it."""
    home = _absolute(default_data_dir(environment))
    if data_dir == home or data_dir.parent == home / CLUSTERS:
        return
    # A state directory that cannot be written is no obstacle to a cluster elsewhere.
    with contextlib.suppress(OSError):
        private_directory(home)
        private_directory(home / ELSEWHERE)
        with contextlib.suppress(FileExistsError):
            _link(home, data_dir).symlink_to(data_dir, target_is_directory=True)


def forget_elsewhere(data_dir: Path, environment: Mapping[str, str] | None = None) -> None:
    """Remove the link that `note_elsewhere` made; no link is no error."""
    link = _link(_absolute(default_data_dir(environment)), data_dir)
    with contextlib.suppress(OSError):
        link.unlink()
        link.parent.rmdir()


def _elsewhere(home: Path) -> Iterator[Path]:
    for link in _entries(home / ELSEWHERE):
        if not link.is_symlink():
            continue
        path = link.readlink()
        if DataDir(path).exists():
            yield path
        else:
            forget_elsewhere(path, {"CATHEDRA_DATA_DIR": str(home)})


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return ()


def _link(home: Path, data_dir: Path) -> Path:
    return home / ELSEWHERE / _digest(data_dir)


def _digest(data_dir: Path) -> str:
    return hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


# --- the one that is meant


def selected(name: str = "", environment: Mapping[str, str] | None = None) -> DataDir:
    """Return the cluster that a command means, which need not exist.

    It is the one of ``name``; without a name, that of kubectl's current context, else the only one that runs, else the
    only one that there is, else the default one.

    Raises:
        InvalidOption: no cluster may be called so, or several are possible; the text lists them.
    """
    known = list(known_directories(environment))
    if name:
        return _of_name(name, known, environment)
    if (current := _of_context(known, environment)) is not None:
        return current
    running = [data for data in known if data.holder() is not None]
    possible = running or known
    if len(possible) > 1:
        state = "run" if running else "are stopped"
        listed = ", ".join(_named(data, environment) for data in possible)
        raise InvalidOption(f"{len(possible)} clusters {state}: {listed}; choose one by its name or with --data-dir")
    return possible[0] if possible else DataDir(_absolute(directory_of(DEFAULT_NAME, environment)))


def current_cluster(environment: Mapping[str, str] | None = None) -> DataDir | None:
    """Return the cluster of kubectl's current context; None if there is none, or it is none of the user's clusters."""
    return _of_context(list(known_directories(environment)), environment)


def selecting(name: str, data_dir: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return the arguments that select a cluster in another command, after a blank; "" if it is the only one."""
    if data_dir != _absolute(directory_of(name, environment)):
        return f" --data-dir {data_dir}"
    alone = all(one.path == data_dir for one in known_directories(environment))
    return "" if name == DEFAULT_NAME and alone else f" {name}"


def _of_name(name: str, known: Sequence[DataDir], environment: Mapping[str, str] | None) -> DataDir:
    data = DataDir(_absolute(directory_of(name, environment)))
    if data.exists():
        return data
    elsewhere = [one for one in known if _name(one) == name]
    if len(elsewhere) > 1:
        listed = ", ".join(f"--data-dir {one.path}" for one in elsewhere)
        raise InvalidOption(f"{len(elsewhere)} clusters have the name {name!r}; choose one of {listed}")
    return elsewhere[0] if elsewhere else data


def _of_context(known: Sequence[DataDir], environment: Mapping[str, str] | None) -> DataDir | None:
    try:
        current = current_context(environment=environment)
    except KubeconfigError:
        return None  # kubectl reports it; here the next rule selects
    if current is None:
        return None
    recorded = [DataDir(Path(current.data_dir))] if current.data_dir else []
    return next((data for data in (*recorded, *known) if data.exists() and _leads_to(current, data)), None)


def _leads_to(current: CurrentContext, data: DataDir) -> bool:
    """Return True if the context leads to the cluster in ``data``.

    The recorded directory alone is no proof: a kubeconfig may come from another machine, or the directory may hold a
    later cluster.
    """
    try:
        own = current_context(data.kubeconfig)
    except KubeconfigError:
        return False
    return own is not None and (own.server, own.certificate_authority) == (
        current.server,
        current.certificate_authority,
    )


def _named(data: DataDir, environment: Mapping[str, str] | None) -> str:
    name = _name(data)
    return name if data.path == _absolute(directory_of(name, environment)) else f"--data-dir {data.path}"


def _name(data: DataDir) -> str:
    try:
        return kept_description(data).name or DEFAULT_NAME
    except InvalidOption:
        return DEFAULT_NAME  # a damaged description of another cluster is no reason to refuse this command


API_VERSION: Final = "cathedra.dev/v1"
KIND: Final = "Cluster"
MAX_NAME: Final = 63
"""Characters of a name, which is a DNS label."""


class Description(msgspec.Struct, frozen=True):
    """A cluster's name, and its options by field name."""

    name: str = ""
    spec: Mapping[str, Any] = msgspec.field(default_factory=dict)


def check_name(name: str) -> str:
    """``name``, if a cluster may be called so.

    Raises:
        InvalidOption: it may not.
    """
    if len(name) > MAX_NAME:
        raise InvalidOption(f"the name of a cluster has at most {MAX_NAME} characters, got {len(name)}: {name!r}")
    if dns_label(name):
        raise InvalidOption(
            f"the name of a cluster consists of lower case letters, digits and '-', and begins and ends with a letter "
            f"or digit, got {name!r}"
        )
    return name


def read_description(path: Path) -> Description:
    """Return the description in a file.

    Raises:
        InvalidOption: the file cannot be read, is of another version, or describes no cluster.
    """
    try:
        document = read_yaml(path.read_bytes()).value
    except OSError as error:
        raise InvalidOption(f"cannot read {path}: {error.strerror}") from error
    except DecodeError as error:
        raise InvalidOption(f"{path}: {error}") from error
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (API_VERSION, KIND):
        raise InvalidOption(f"{path}: it must begin with apiVersion: {API_VERSION} and kind: {KIND}")
    unknown = sorted(set(document) - {"apiVersion", "kind", "metadata", "spec"})
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    if unknown or not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise InvalidOption(f"{path}: {unknown[0] if unknown else 'metadata or spec'} is not as in a Cluster")
    name = metadata.get("name", "")
    if isinstance(name, str) and len(name) > MAX_NAME:
        raise InvalidOption(f"{path}: metadata.name has at most {MAX_NAME} characters, got {len(name)}: {name!r}")
    if not isinstance(name, str) or (name and dns_label(name)):
        raise InvalidOption(f"{path}: metadata.name must be lower case letters, digits and '-', got {name!r}")
    return Description(name, spec)


def write_description(path: Path, description: Description) -> None:
    """Keep a description, durably."""
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": description.name},
        "spec": dict(description.spec),
    }
    write_durable(path, write_yaml(document, sort_keys=False))
