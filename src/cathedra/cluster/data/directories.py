"""Directories of a user's clusters: the default cluster in the state directory itself, named ones below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cathedra.api.formats import dns_label
from cathedra.cluster.config import InvalidOption, default_data_dir
from cathedra.cluster.data.datadir import DataDir

__all__ = ["CLUSTERS", "DEFAULT_NAME", "check_name", "context_name", "directory_of", "known_directories"]

DEFAULT_NAME: Final = "cathedra"
CLUSTERS: Final = "clusters"
"""The folder of the named clusters."""


def check_name(name: str) -> str:
    """``name``, if a cluster may be called so.

    Raises:
        InvalidOption: it may not.
    """
    if dns_label(name):
        raise InvalidOption(
            f"the name of a cluster consists of lower case letters, digits and '-', and begins and ends with a letter "
            f"or digit, got {name!r}"
        )
    return name


def context_name(name: str) -> str:
    """The kubeconfig context of a cluster."""
    return name if name == DEFAULT_NAME else f"cathedra-{name}"


def directory_of(name: str, environment: Mapping[str, str] | None = None) -> Path:
    """The data directory of the cluster of that name; it need not exist.

    Raises:
        InvalidOption: no cluster may be called so.
    """
    home = default_data_dir(environment)
    return home if check_name(name) == DEFAULT_NAME else home / CLUSTERS / name


def known_directories(environment: Mapping[str, str] | None = None) -> Iterator[DataDir]:
    """The data directories in the state directory that have been used, the default cluster's first."""
    home = default_data_dir(environment).expanduser().absolute()
    named = sorted((home / CLUSTERS).iterdir()) if (home / CLUSTERS).is_dir() else []
    for path in (home, *named):
        data = DataDir(path)
        if data.exists():
            yield data
