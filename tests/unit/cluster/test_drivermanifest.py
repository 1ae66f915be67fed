"""Manifests that install a driver: valid for an API server, and for the same driver everywhere."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.cli.main import main
from cathedra.client.client import Client
from cathedra.client.resources import DAEMONSETS, DEPLOYMENTS, DEVICECLASSES
from cathedra.clock import SystemClock
from cathedra.cluster.driverfiles import driver_manifest, fabric_manifest
from cathedra.cluster.manifests import create_all, read_manifests
from cathedra.releases import FeatureGates

DRIVER = "lamp.example.com"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "driver.yaml"
    file.write_bytes(driver_manifest(DRIVER, "minimal:Lamps", image="lamps:1", namespace="lamps"))
    return file


async def test_a_server_takes_every_document_as_it_is(manifest: Path) -> None:
    clock = SystemClock()
    server = await APIServer.open(ServerConfig(), clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    gates = FeatureGates.for_release()
    assert len(await create_all(client, read_manifests(manifest, gates))) == 8
    found = await client.resource(DAEMONSETS, "lamps").get(DRIVER)
    (container,) = found.spec.template.spec.containers
    assert (container.image, container.args[:3]) == (
        "lamps:1",
        ("--module=minimal:Lamps", "--node-name=$(NODE_NAME)", "--pod-uid=$(POD_UID)"),
    )
    (selector,) = (await client.resource(DEVICECLASSES).get(DRIVER)).spec.selectors
    assert selector.cel is not None
    assert selector.cel.expression == f"device.driver == '{DRIVER}'"
    await server.close()


def test_the_account_and_the_policy_are_those_of_the_pods_namespace(manifest: Path) -> None:
    documents = {one["kind"]: one for one in yaml.safe_load_all(manifest.read_text())}
    (condition,) = documents["ValidatingAdmissionPolicy"]["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == 'system:serviceaccount:lamps:{DRIVER}'"
    assert documents["ClusterRoleBinding"]["subjects"][0]["namespace"] == "lamps"
    assert documents["DaemonSet"]["spec"]["template"]["spec"]["serviceAccountName"] == DRIVER


def test_an_update_never_leaves_the_node_without_the_driver(manifest: Path) -> None:
    documents = {one["kind"]: one for one in yaml.safe_load_all(manifest.read_text())}
    strategy = documents["DaemonSet"]["spec"]["updateStrategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


async def test_a_fabric_driver_comes_with_its_controller(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_bytes(fabric_manifest(DRIVER, "switch:Switch", image="switch:1", namespace="lamps"))
    clock = SystemClock()
    server = await APIServer.open(ServerConfig(), clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    assert len(await create_all(client, read_manifests(file, FeatureGates.for_release()))) == 14
    found = await client.resource(DEPLOYMENTS, "lamps").get(f"{DRIVER}-controller")
    pod = found.spec.template.spec
    assert (found.spec.replicas, pod.service_account_name) == (2, f"{DRIVER}-controller")
    assert pod.containers[0].args[:2] == ("switch:Switch", "--leader-elect-resource-namespace=lamps")
    assert pod.containers[0].security_context is None
    await server.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--namespace=default"], "--namespace default is for pods of all kinds"),
        (["--namespace=A_b"], "--namespace 'A_b' is no name of a namespace"),
    ],
)
def test_a_namespace_that_will_not_do_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["driver-manifest", "cathedra.drivers.gpu:GPUDriver", "--image=i", *words]) == 2
    assert capsys.readouterr().err.startswith(f"cathedra: {said}")
