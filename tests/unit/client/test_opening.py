"""A kubeconfig says by its server which way leads there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client import kubeconfig
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import KubeconfigError, Target
from cathedra.client.opening import open_transport
from cathedra.client.resources import CONFIGMAPS
from cathedra.client.transport import APICall
from tests.unit.apiserver.local.serving import ADMIN, served


async def test_a_socket_of_a_kubeconfig_is_used_with_its_token(tmp_path: Path) -> None:
    async with served(tmp_path, authorization=True):
        kubeconfig.write(tmp_path / "config", Target(f"unix://{tmp_path / 'api.sock'}", token=ADMIN))
        target = kubeconfig.load(tmp_path / "config")
        assert target.socket == tmp_path / "api.sock"
        async with open_transport(target, user_agent="tests") as transport:
            made = await transport.call(
                APICall("create", CONFIGMAPS, "default", body=ConfigMap(metadata=ObjectMeta(name="a")))
            )
            assert await transport.call(APICall("get", CONFIGMAPS, "default", "a")) == made


async def test_a_url_of_a_kubeconfig_is_asked_over_http() -> None:
    target = Target("http://127.0.0.1:1")
    assert target.socket is None
    async with open_transport(target, user_agent="tests") as transport:
        assert isinstance(transport, HTTPTransport)


async def test_who_needs_all_of_the_api_is_told_that_a_socket_has_not_all_of_it(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="for cathedra scheduler and cathedra controller-manager alone"):
        await HTTPTransport.open(Target(f"unix://{tmp_path}"))
