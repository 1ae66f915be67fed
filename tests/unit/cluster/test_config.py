"""Choices that cannot be met are refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cathedra.cluster.config import ClusterConfig, DriverConfig, InvalidOption, KubeletOptions, default_data_dir
from cathedra.profiles import load_profile


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        ({"nodes": -1}, "--nodes must not be negative"),
        ({"port": 70000}, "--port must be between 0 and 65535"),
        ({"apiserver_count": 0}, "--apiserver-count must be between 1 and 64, got 0"),
        ({"store": "postgres"}, "--store must be sqlite, memory or etcd://"),
        ({"runtime": "docker"}, "--runtime must be one of"),
        ({"release": "1.20"}, "--kubernetes-version must be one of"),
    ],
)
def test_a_wrong_choice_names_its_option(tmp_path: Path, choice: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidOption, match=complaint):
        ClusterConfig(data_dir=tmp_path, **choice)


def test_a_certificate_for_nodes_needs_its_key_and_both_are_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="--kubelet-client-certificate and --kubelet-client-key need each other"):
        KubeletOptions(client_certificate=tmp_path)
    with pytest.raises(InvalidOption, match="is no file"):
        KubeletOptions(authority=tmp_path / "missing")


def test_memory_of_a_gpu_must_be_a_quantity() -> None:
    with pytest.raises(InvalidOption, match="--gpu-memory 'lots'"):
        DriverConfig(memory="lots")


def test_partitions_need_their_gate_where_the_profile_has_any(tmp_path: Path) -> None:
    parts, whole = load_profile("h100-8-mig"), load_profile("h100-8")
    with pytest.raises(InvalidOption, match="--profile h100-8-mig needs --feature-gates DRAPartitionableDevices=true"):
        ClusterConfig(data_dir=tmp_path, profile=parts, release="1.34")
    assert ClusterConfig(data_dir=tmp_path, profile=whole, release="1.34").drivers == ("gpu.nvidia.com",)


def test_without_a_profile_nodes_have_the_example_driver(tmp_path: Path) -> None:
    assert ClusterConfig(data_dir=tmp_path).drivers == ("gpu.example.com",)


def test_nodes_are_counted_from_zero(tmp_path: Path) -> None:
    assert ClusterConfig(data_dir=tmp_path, nodes=2).node_names == ("node-0", "node-1")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CATHEDRA_DATA_DIR": "/a"}, "/a"),
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/cathedra"),
        ({"HOME": "/h"}, "/h/.local/state/cathedra"),
    ],
)
def test_the_data_directory_follows_the_environment(environment: dict[str, str], expected: str) -> None:
    assert default_data_dir(environment) == Path(expected)
