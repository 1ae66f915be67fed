"""Choices that cannot be met are refused before anything starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cathedra.cluster.config import (
    ClusterConfig,
    DriverConfig,
    InvalidOption,
    KubeletOptions,
    default_data_dir,
    parse_nodes,
    servers_for,
    usable_processors,
)
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


def test_groups_of_nodes_have_names_and_devices_of_their_own() -> None:
    count, groups = parse_nodes(["2", "gpu=1:h100-8", "cpu=2"])
    config = ClusterConfig(data_dir=Path("/data"), nodes=count, groups=groups)
    assert config.node_names == ("node-0", "node-1", "gpu-0", "cpu-0", "cpu-1")
    gpu, cpu = config.group_of("gpu-0"), config.group_of("cpu-1")
    assert gpu is not None
    assert gpu.profile is not None
    assert cpu is not None
    assert cpu.profile is None
    assert config.group_of("node-0") is None
    assert parse_nodes(["gpu=1"])[0] == 0


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        (["x"], "--nodes must be a whole number, got 'x'"),
        (["-1"], "--nodes must not be negative, got -1"),
        (["gpu=x"], "--nodes must be a whole number, got 'x'"),
        (["node=2"], "the name of a group is one of lower case letters"),
        (["Gpu=2"], "the name of a group is one of lower case letters"),
        (["2", "3"], "--nodes names a number without a group twice"),
        (["a=2", "a=3"], "--nodes names the group 'a' twice"),
        (["2:h100-8"], "a profile needs a group, as in gpu=2:h100-8"),
    ],
)
def test_nodes_in_another_form_are_refused(entries: list[str], why: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        parse_nodes(entries)
    assert why in str(refused.value)


@pytest.mark.parametrize(("processors", "servers"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4), (128, 8)])
def test_the_number_of_api_servers_follows_the_processors(processors: int, servers: int) -> None:
    assert servers_for(processors) == servers


def test_the_usable_processors_are_those_of_the_affinity_at_most() -> None:
    assert 1 <= usable_processors() <= len(os.sched_getaffinity(0))
