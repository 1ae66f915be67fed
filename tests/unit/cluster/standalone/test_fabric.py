"""The namespace of the lease of a fabric driver's controllers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.cli.main import main
from cathedra.cluster.standalone.fabric import lease_namespace


def test_the_option_comes_before_the_pods_variable_and_that_before_its_account(tmp_path: Path) -> None:
    account = tmp_path / "namespace"
    account.write_text("of-account\n")
    assert lease_namespace("chosen", {"POD_NAMESPACE": "of-pod"}, account) == "chosen"
    assert lease_namespace("", {"POD_NAMESPACE": "of-pod"}, account) == "of-pod"
    assert lease_namespace("", {}, account) == "of-account"
    assert lease_namespace("", {}, tmp_path / "none") == "default"


def test_a_driver_of_nodes_is_no_fabric_driver(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver-fabric", "cathedra.drivers.gpu:GpuDriver"]) == 2
    said = capsys.readouterr().err
    assert "makes a GpuDriver, which is no cathedra.driver.FabricDriver" in said
    assert "cathedra driver --module runs it on a node" in said
