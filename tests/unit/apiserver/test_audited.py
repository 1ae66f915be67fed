"""Calls of parts in the process of the API server, in the audit log."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.pipeline.audit import load_policy
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.resources import CONFIGMAPS, PODS
from cathedra.client.transport import PatchType
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates

MASTER = UserInfo("system:kube-controller-manager", ("system:masters",))
POD_GC = UserInfo("system:serviceaccount:kube-system:pod-garbage-collector")


async def audited(log: Path | None, policy: str = "{kind: Policy, rules: [{level: Metadata}]}") -> APIServer:
    config = ServerConfig(
        gates=FeatureGates.for_release(), authorization=True, audit_log=log, audit_policy=load_policy(policy)
    )
    return await APIServer.open(config, clock=SystemClock(), random=random.Random(1))


def client_of(server: APIServer, user: UserInfo) -> Client:
    return Client(server.transport_of_part(user, "part", Denials(SystemClock())), clock=SystemClock())


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_every_call_of_a_part_is_written_down(tmp_path: Path) -> None:
    server = await audited(tmp_path / "log")
    maps = client_of(server, MASTER).resource(CONFIGMAPS, "default")
    made = await maps.create(ConfigMap(metadata=ObjectMeta(generate_name="a-")))
    name = made.metadata.name
    await maps.update(made)
    await maps.patch(name, PatchType.MERGE, {"data": {"k": "v"}})
    await maps.get(name)
    page = await maps.list("a=b")
    async with maps.watch(resource_version=page.resource_version):
        pass
    await maps.delete(name)
    await maps.delete_collection()
    await server.close()
    written = lines(tmp_path / "log")
    assert [(line["verb"], line["responseStatus"]["code"]) for line in written] == [
        ("create", 201),
        ("update", 200),
        ("patch", 200),
        ("get", 200),
        ("list", 200),
        ("watch", 200),
        ("watch", 200),
        ("delete", 200),
        ("deletecollection", 200),
    ]
    assert {(line["user"]["username"], line["userAgent"]) for line in written} == {(MASTER.name, "part")}
    assert written[0]["objectRef"]["name"] == name
    assert written[4]["requestURI"] == "/api/v1/namespaces/default/configmaps?labelSelector=a%3Db"


async def test_a_refused_call_is_written_down_as_forbidden(tmp_path: Path) -> None:
    server = await audited(tmp_path / "log")
    with pytest.raises(StatusError):
        await client_of(server, POD_GC).resource(PODS, "default").get("p")
    await server.close()
    (line,) = lines(tmp_path / "log")
    assert line["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert (line["responseStatus"]["code"], line["objectRef"]["name"]) == (403, "p")


async def test_the_policy_decides_about_parts_too(tmp_path: Path) -> None:
    policy = (
        "{kind: Policy, rules: [{level: None, verbs: [get]}, "
        "{level: RequestResponse, resources: [{group: '', resources: [configmaps]}]}]}"
    )
    server = await audited(tmp_path / "log", policy)
    maps = client_of(server, MASTER).resource(CONFIGMAPS, "default")
    await maps.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "v"}))
    await maps.get("a")
    await server.close()
    (line,) = lines(tmp_path / "log")
    assert line["requestObject"]["data"] == line["responseObject"]["data"] == {"k": "v"}


async def test_without_a_log_parts_call_the_server_directly() -> None:
    server = await audited(None)
    part = server.transport_of_part(MASTER, "part", Denials(SystemClock()))
    assert type(part) is type(server.transport_of(MASTER))
    await server.close()
