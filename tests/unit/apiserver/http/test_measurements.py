"""``metrics.k8s.io``: figures of nodes and pods, as reported by their nodes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from cathedra.apiserver.config import ServerConfig
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

GROUP = "/apis/metrics.k8s.io/v1beta1"
PODS = "/api/v1/namespaces/default/pods"
SERVED = ServerConfig(runtime_config={"metrics.k8s.io/v1beta1": True})


def figures(cores: int, memory: int) -> dict[str, Any]:
    return {"cpu": {"usageNanoCores": cores}, "memory": {"workingSetBytes": memory}}


class Nodes:
    """Nodes n1 and n2, of which n2 does not answer; a pod p on n1 and a pod q on n2."""

    def __init__(self, client: ASGIClient) -> None:
        self._client = client
        self.asked: list[str] = []
        self.told: Any = None

    async def prepare(self) -> None:
        for name in ("n1", "n2"):
            await self._client("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"of": name}}})
        uid = ""
        for name, node in (("p", "n1"), ("q", "n2")):
            spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
            made = await self._client("POST", PODS, {"metadata": {"name": name, "labels": {"a": name}}, "spec": spec})
            uid = uid or made.json["metadata"]["uid"]
        containers = [{"name": "c", **figures(250_000_000, 1_048_576)}]
        self.told = {
            "node": figures(1_500_000_000, 3_000_000),
            "pods": [{"podRef": {"uid": uid}, "containers": containers}],
        }
        self._client.server.take_figures_from(self.summary)

    def summary(self, name: str) -> Awaitable[Any]:
        async def said() -> Any:
            self.asked.append(name)
            return self.told if name == "n1" else None

        return said()


async def test_a_node_and_a_pod_have_what_their_node_says() -> None:
    async with open_asgi(SERVED) as client:
        nodes = Nodes(client)
        await nodes.prepare()
        listed = (await client("GET", f"{GROUP}/nodes")).json
        assert listed["kind"] == "NodeMetricsList"
        (node,) = listed["items"]
        assert (node["metadata"]["name"], node["metadata"]["labels"]) == ("n1", {"of": "n1"})
        assert node["usage"] == {"cpu": "1500m", "memory": "2929Ki"}
        one = (await client("GET", f"{GROUP}/namespaces/default/pods/p")).json
        assert (one["kind"], one["apiVersion"]) == ("PodMetrics", "metrics.k8s.io/v1beta1")
        assert one["containers"] == [{"name": "c", "usage": {"cpu": "250m", "memory": "1Mi"}}]
        assert one["window"] == "5s"


async def test_figures_are_good_for_some_seconds() -> None:
    async with open_asgi(SERVED) as client:
        nodes = Nodes(client)
        await nodes.prepare()
        for _ in range(3):
            await client("GET", f"{GROUP}/nodes/n1")
        assert nodes.asked == ["n1"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("pods", ["p"]),
        ("namespaces/default/pods", ["p"]),
        ("namespaces/other/pods", []),
        ("pods?labelSelector=a=p", ["p"]),
        ("pods?labelSelector=a=q", []),
        ("nodes?labelSelector=of=n2", []),
        ("nodes?fieldSelector=metadata.name=n1", ["n1"]),
    ],
)
async def test_lists_are_selected(path: str, names: list[str]) -> None:
    async with open_asgi(SERVED) as client:
        await Nodes(client).prepare()
        items = (await client("GET", f"{GROUP}/{path}")).json["items"]
        assert [item["metadata"]["name"] for item in items] == names


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "nodes/n2", 404, 'nodemetrics.metrics.k8s.io "n2" not found'),
        ("GET", "namespaces/default/pods/gone", 404, 'podmetrics.metrics.k8s.io "default/gone" not found'),
        ("GET", "pods/p", 404, "the server could not find the requested resource"),
        ("GET", "namespaces/default/nodes", 404, "the server could not find the requested resource"),
        ("GET", "nodes?labelSelector=%21%21", 400, "unable to parse requirement"),
        ("DELETE", "nodes/n1", 405, "the server does not allow this method on the requested resource"),
        ("POST", "nodes", 405, "the server does not allow this method on the requested resource"),
    ],
)
async def test_what_has_no_figures_is_refused(method: str, path: str, status: int, message: str) -> None:
    async with open_asgi(SERVED) as client:
        await Nodes(client).prepare()
        answer = await client(method, f"{GROUP}/{path}")
        assert answer.status == status
        assert message in answer.json["message"]


@pytest.mark.parametrize("told", [[], {}, {"node": 1}, {"node": {}, "pods": 3}, {"node": figures(1, 2), "pods": [{}]}])
async def test_what_a_node_says_may_be_anything(told: Any) -> None:
    async with open_asgi(SERVED) as client:
        nodes = Nodes(client)
        await nodes.prepare()
        nodes.told = told
        assert (await client("GET", f"{GROUP}/nodes")).json["items"] == []
        assert (await client("GET", f"{GROUP}/pods")).json["items"] == []


@pytest.mark.parametrize("containers", [None, 3, [None], [{"name": None}]])
async def test_a_pod_without_figures_of_containers_does_not_hide_the_others(containers: Any) -> None:
    async with open_asgi(SERVED) as client:
        nodes = Nodes(client)
        await nodes.prepare()
        nodes.told["pods"][0]["containers"] = containers
        (pod,) = (await client("GET", f"{GROUP}/pods")).json["items"]
        assert pod["containers"] == []


async def test_a_node_without_pods_has_its_figures() -> None:
    async with open_asgi(SERVED) as client:
        nodes = Nodes(client)
        await nodes.prepare()
        nodes.told["pods"] = None
        assert len((await client("GET", f"{GROUP}/nodes")).json["items"]) == 1
        assert (await client("GET", f"{GROUP}/pods")).json["items"] == []


async def test_a_server_that_is_not_told_to_does_not_serve_them() -> None:
    async with open_asgi() as client:
        assert (await client("GET", f"{GROUP}/nodes")).status == 404
        groups = (await client("GET", "/apis")).json["groups"]
        assert "metrics.k8s.io" not in {group["name"] for group in groups}
