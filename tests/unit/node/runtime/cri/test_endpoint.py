"""The status that a container runtime reports, and calls that fail."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from cathedra._proto import cri_v1_pb2 as api
from cathedra.cdi.catalogue import DEFAULT_DIRECTORIES
from cathedra.node.runtime.cri.endpoint import CRIEndpoint, CRIError, CRIFeatures, socket_path
from cathedra.node.runtime.runtime import Image, ImageFailure, RegistryLogin
from tests.unit.node.runtime.cri.conftest import Node
from tests.unit.node.runtime.cri.fakecri import IMAGE, IMAGE_ID, NETWORK, FakeCRI, serving


async def features(fake: FakeCRI, directory: Path) -> CRIFeatures:
    async with serving(fake, directory / "cri.sock") as socket:
        endpoint = CRIEndpoint(f"unix://{socket}")
        try:
            return await endpoint.features()
        finally:
            await endpoint.close()


def test_a_socket_is_named_by_its_path_or_as_a_kubelet_names_it() -> None:
    assert socket_path("unix:///run/x.sock") == socket_path("/run/x.sock") == "/run/x.sock"


async def test_a_runtime_that_says_nothing_of_cdi_resolves_none(short: Path) -> None:
    found = await features(FakeCRI(), short)
    assert (found.name, found.version) == ("containerd", "1.0")
    assert (found.cdi_directories, found.pod_networks, found.systemd_cgroups) == ((), False, False)


async def test_containerd_says_whether_and_where_it_resolves_cdi(short: Path) -> None:
    fake = FakeCRI(conditions=(NETWORK,))
    options = {"runtimes": {"runc": {"options": {"SystemdCgroup": True}}}, "defaultRuntimeName": "runc"}
    fake.info["config"] = json.dumps({"enableCDI": True, "cdiSpecDirs": ["/x"], "containerd": options})
    found = await features(fake, short)
    assert (found.cdi_directories, found.pod_networks, found.systemd_cgroups) == ((Path("/x"),), True, True)


async def test_other_runtimes_resolve_cdi_in_the_usual_places(short: Path) -> None:
    fake = FakeCRI(name="cri-o", conditions=(api.RuntimeCondition(type="RuntimeReady", status=True),))
    fake.info["config"] = "no json"
    found = await features(fake, short)
    assert (found.name, found.cdi_directories) == ("cri-o", DEFAULT_DIRECTORIES)


async def test_a_failure_is_told_in_the_words_of_go(short: Path) -> None:
    fake = FakeCRI()
    fake.failures["Version"] = (grpc.StatusCode.UNIMPLEMENTED, "unknown service runtime.v1.RuntimeService")
    with pytest.raises(CRIError) as raised:
        await features(fake, short)
    assert str(raised.value) == "rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService"


async def test_a_socket_without_a_runtime_is_an_error(short: Path) -> None:
    endpoint = CRIEndpoint(str(short / "none.sock"))
    with pytest.raises(CRIError) as raised:
        await endpoint.features()
    assert raised.value.code == "Unavailable"
    await endpoint.close()


async def test_an_image_is_there_or_not(node: Node) -> None:
    assert await node.runtime.images.find(IMAGE) == Image(IMAGE_ID, 100)
    assert await node.runtime.images.find("x:1") is None


async def test_an_image_says_whom_it_runs_as(node: Node) -> None:
    node.fake.images["u:1"] = api.Image(id="u", uid=api.Int64Value(value=0))
    node.fake.images["n:1"] = api.Image(id="n", username="web")
    assert await node.runtime.images.find("u:1") == Image("u", 0, 0)
    assert await node.runtime.images.find("n:1") == Image("n", 0, None, "web")


async def test_an_image_is_pulled_with_a_login_or_without(node: Node) -> None:
    node.fake.registry["x:1"] = api.Image(id="x")
    await node.runtime.images.pull("x:1", RegistryLogin("u", "p", server="s"))
    await node.runtime.images.pull("x:1", None)
    first, second = node.fake.of("PullImage")
    assert (first.auth.username, first.auth.password, first.auth.server_address) == ("u", "p", "s")
    assert not second.HasField("auth")


async def test_a_pull_that_fails_says_why(node: Node) -> None:
    with pytest.raises(ImageFailure, match="code = NotFound"):
        await node.runtime.images.pull("x:1", None)
