"""From options to configuration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from cathedra.cli.configuration import DriverPlace, driver_place, gates_without_effect, reserved_resources
from cathedra.cluster.config import InvalidOption


def reserved(kube: str = "", system: str = "") -> dict[str, str]:
    return reserved_resources(argparse.Namespace(kube_reserved=kube, system_reserved=system))


def test_what_is_reserved_for_both_adds_up() -> None:
    assert reserved() == {}
    assert reserved("cpu=200m,memory=1Gi", "cpu=0.3, pid=100") == {"cpu": "500m", "memory": "1Gi", "pid": "100"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cpu", "'cpu' is not of the form NAME=VALUE"),
        ("gpu=1", "cannot reserve 'gpu' resource; there are cpu, memory, ephemeral-storage, pid"),
        ("cpu=x", "'x' is no quantity of cpu"),
        ("memory=-1Gi", "resource quantity for 'memory' cannot be negative: -1Gi"),
    ],
)
def test_what_cannot_be_reserved_is_told(text: str, complaint: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        reserved(system=text)
    assert str(raised.value).startswith("--system-reserved")
    assert complaint in str(raised.value)


def placed(environment: dict[str, str], **options: Any) -> DriverPlace:
    defaults = dict.fromkeys(("kubeconfig", "root_dir", "cdi_dir", "data_dir"), None)
    arguments = {**defaults, "cluster": "", "node_name": "", **options}
    return driver_place(argparse.Namespace(**arguments), environment)


POD = {
    "NODE_NAME": "n1",
    "KUBELET_PLUGINS_DIRECTORY_PATH": "/kubelet/plugins",
    "KUBELET_REGISTRAR_DIRECTORY_PATH": "/kubelet/registry",
    "CDI_ROOT": "/kubelet/cdi",
}


def test_the_environment_of_a_pod_places_a_driver() -> None:
    place = placed(POD)
    assert (place.node_name, place.kubeconfig) == ("n1", None)
    assert [str(path) for path in place[3:]] == ["/kubelet/plugins", "/kubelet/registry", "/kubelet/cdi"]


def test_options_of_a_driver_override_the_environment() -> None:
    place = placed(POD, node_name="n2", root_dir=Path("/other"), kubeconfig=Path("/config"))
    assert (place.node_name, place.kubeconfig, place.root) == ("n2", Path("/config"), Path("/other"))
    assert [str(path) for path in place[3:]] == ["/other/plugins", "/other/plugins_registry", "/other/cdi"]
    assert placed(POD, cdi_dir=Path("/cdi")).cdi == Path("/cdi")


def test_the_only_node_of_a_cluster_needs_no_name(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").touch()
    (tmp_path / "nodes" / "node-0" / "plugins_registry").mkdir(parents=True)
    place = placed({}, data_dir=tmp_path)
    assert (place.node_name, place.kubeconfig) == ("node-0", tmp_path / "kubeconfig")
    (tmp_path / "nodes" / "node-1" / "plugins_registry").mkdir(parents=True)
    with pytest.raises(InvalidOption, match="its nodes are node-0, node-1"):
        placed({}, data_dir=tmp_path)


def test_a_driver_elsewhere_needs_a_node() -> None:
    with pytest.raises(InvalidOption, match=r"--node-name or \$NODE_NAME is needed"):
        placed({}, kubeconfig=Path("/config"))


@pytest.mark.parametrize(
    ("gates", "named"),
    [
        ({"MemoryQoS": False, "DRADerivedAttributes": True}, ["MemoryQoS"]),
        ({"MemoryQoS": True}, []),
        ({"AllAlpha": True}, []),
    ],
    ids=["a changed gate", "a gate at its default", "a whole stage"],
)
def test_gates_that_are_named_and_changed_without_an_effect_are_reported(
    gates: dict[str, bool], named: list[str]
) -> None:
    lines = [f"the feature gate {gate} of Kubernetes 1.37 has no effect in Cathedra" for gate in named]
    assert gates_without_effect("1.37", gates) == lines
