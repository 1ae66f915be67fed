"""Images of a runtime: looked up and pulled."""

from __future__ import annotations

import pytest

from cathedra._proto import cri_v1_pb2 as api
from cathedra.node.runtime.runtime import Image, ImageFailure, RegistryLogin
from tests.unit.node.runtime.cri.conftest import Node
from tests.unit.node.runtime.cri.fakecri import IMAGE, IMAGE_ID


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
