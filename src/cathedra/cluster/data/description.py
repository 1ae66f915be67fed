"""Description of a cluster: a versioned YAML file in its data directory, and the form of ``--config``.

    apiVersion: cathedra.dev/v1
    kind: Cluster
    metadata:
      name: dev
    spec:
      nodes: 2
      gpus: 4

The fields of the spec are the options of ``cathedra up`` in camel case; the command has their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml, write_yaml
from cathedra.api.formats import dns_label
from cathedra.cluster.config import InvalidOption
from cathedra.files.atomic import write_durable

__all__ = ["MAX_NAME", "Description", "check_name", "read_description", "write_description"]

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
    """The description in a file.

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
