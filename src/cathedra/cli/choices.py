"""From parsed options to a `ClusterConfig`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from cathedra.cluster.config import ClusterConfig, ConfigError, DriverConfig, default_data_dir

__all__ = ["cluster_config", "data_dir", "driver_config", "gate_overrides"]


def data_dir(arguments: argparse.Namespace) -> Path:
    """The chosen data directory, absolute."""
    chosen: Path = arguments.data_dir or default_data_dir()
    return chosen.expanduser().absolute()


def cluster_config(arguments: argparse.Namespace) -> ClusterConfig:
    """The cluster that ``cathedra up`` was asked for.

    Raises:
        ConfigError: a choice cannot be met.
    """
    return ClusterConfig(
        data_dir=data_dir(arguments),
        nodes=arguments.nodes,
        port=arguments.port,
        store=arguments.store,
        runtime=arguments.runtime,
        release=arguments.kubernetes_version,
        gates=gate_overrides(arguments.feature_gates),
        driver=driver_config(arguments),
    )


def driver_config(arguments: argparse.Namespace) -> DriverConfig:
    """The example driver as asked for.

    Raises:
        ConfigError: an attribute has no value, or a quantity is none.
    """
    return DriverConfig(
        name=arguments.driver_name,
        gpus=arguments.gpus,
        memory=arguments.gpu_memory,
        attributes=dict(_pairs("--gpu-attribute", arguments.gpu_attribute)),
    )


def gate_overrides(text: str) -> dict[str, bool]:
    """``A=true,B=false`` as a table.

    Raises:
        ConfigError: an entry is not of that form.
    """
    overrides: dict[str, bool] = {}
    for name, value in _pairs("--feature-gates", filter(None, text.split(","))):
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"--feature-gates {name}={value}: the value must be true or false")
        overrides[name] = value.lower() == "true"
    return overrides


def _pairs(option: str, entries: Iterable[str]) -> Iterable[tuple[str, str]]:
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not name or not equals:
            raise ConfigError(f"{option} {entry!r} is not of the form NAME=VALUE")
        yield name.strip(), value.strip()
