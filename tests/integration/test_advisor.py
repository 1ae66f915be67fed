"""The advisor as a process with the rights of its base, beside API servers of several releases and no scheduler."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.dashboard import DASHBOARD, Prometheus, expression

from cathedra.cluster.data.datadir import DataDir
from tests.integration.conftest import EXAMPLES, Kubectl, RunningCluster
from tests.integration.test_beside_kubernetes import BASES, as_account, fetched, until
from tests.integration.test_parts_alone import Parts
from tests.ports import free_port

BASE = BASES / "advisor"
GAUGE = 'cathedra_pods_that_would_fit{kind="unseen",scheduler="default-scheduler"}'
SERVED = {
    "1.32": ("v1beta1", "--feature-gates=DynamicResourceAllocation=true"),
    "1.34": ("v1", ""),
    "1.37": ("v1", ""),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="advised-") as name:
        yield Path(name)


def objects(version: str, *, pods: bool) -> str:
    """The example's objects in a version of resource.k8s.io; its pods, or all others."""
    found = []
    for one in yaml.safe_load_all((EXAMPLES / "advisor" / "cluster.yaml").read_text()):
        if (one["kind"] == "Pod") is pods:
            found.append(_older(one) if version == "v1beta1" else one)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": found})


def _older(one: dict[str, Any]) -> dict[str, Any]:
    if one["apiVersion"] == "resource.k8s.io/v1":
        one["apiVersion"] = "resource.k8s.io/v1beta1"
    if one["kind"] == "ResourceClaim":
        for request in one["spec"]["devices"]["requests"]:
            request.update(request.pop("exactly"))
    for device in one["spec"].get("devices", ()) if one["kind"] == "ResourceSlice" else ():
        device["basic"] = {"capacity": device.pop("capacity")}
    return one


def messages(kubectl: Kubectl) -> list[tuple[str, str, str]]:
    items = json.loads(kubectl("get", "events", "-o", "json"))["items"]
    return sorted((one["involvedObject"]["name"], one["reason"], one["message"]) for one in items)


def test_the_base_lets_the_advisor_read_and_write_events_alone() -> None:
    documents = [one for one in yaml.safe_load_all((BASE / "advisor.yaml").read_text()) if one]
    (rules,) = (
        one["rules"]
        for one in documents
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == "cathedra-advisor"
    )
    reviews = {"tokenreviews", "subjectaccessreviews"}
    for rule in rules:
        written = set(rule["verbs"]) - {"get", "list", "watch"}
        resources = set(rule.get("resources", ()))
        assert not written or resources <= reviews or (resources, written) == ({"events"}, {"create", "patch"}), rule
        assert "secrets" not in resources
        assert "*" not in (*resources, *rule["verbs"])


@pytest.mark.parametrize("release", SERVED)
def test_with_the_scheduler_stopped_the_node_is_named_and_a_restart_repeats_nothing(folder: Path, release: str) -> None:
    version, gates = SERVED[release]
    with ExitStack() as stack:
        parts, port = Parts(folder, stack), free_port()
        options = [gates, f"--runtime-config=resource.k8s.io/{version}=true"] if gates else []
        parts.start("apiserver", f"--data-dir={folder}", f"--kubernetes-version={release}", *options)
        parts.wait_for("apiserver", "export KUBECONFIG=")
        kubectl = Kubectl(RunningCluster(DataDir(folder), ()))
        kubectl("apply", "-k", str(BASE))
        kubectl("create", "serviceaccount", "default")
        kubectl("apply", "-f", "-", stdin=objects(version, pods=False))
        kubectl("taint", "node", "node-0", "node.kubernetes.io/not-ready-")
        documents = yaml.safe_load_all((BASE / "advisor.yaml").read_text())
        deployment = next(one for one in documents if one["kind"] == "Deployment")
        command = deployment["spec"]["template"]["spec"]["containers"][0]["command"]
        words = [word for word in command[2:] if "bind-address" not in word and "secure-port" not in word]
        started = (as_account(kubectl, folder, "cathedra-advisor"), *words, f"--secure-port={port}")
        kubectl("create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics")
        kubectl("create", "clusterrolebinding", "metrics", "--clusterrole=metrics", "--serviceaccount=default:default")
        token = kubectl("create", "token", "default").strip()

        parts.start("advisor", *started)
        parts.wait_for("advisor", "leads cathedra-advisor")
        until(lambda: "cathedra_devices{" in fetched(port, "/metrics", token)[1], "no figures")
        kubectl("apply", "-f", "-", stdin=objects(version, pods=True))
        until(lambda: f"{GAUGE} 1\n" in fetched(port, "/metrics", token)[1], "no alarm", seconds=5)
        until(lambda: len(messages(kubectl)) == 2, "no events", seconds=5)
        (fits, too_many) = messages(kubectl)
        assert fits[:2] == ("fits", "PodWouldFit")
        assert "fits on node node-0, but the scheduler default-scheduler has not reported on it" in fits[2]
        assert f"Assumed: Kubernetes {release} with the feature gates that the server reports" in fits[2]
        assert too_many[:2] == ("too-many", "DevicesExplained")
        assert fetched(port, "/healthz") == (200, "ok")
        assert fetched(port, "/metrics")[0] == 401

        before = messages(kubectl)
        parts.kill("advisor")
        kubectl("delete", "lease", "cathedra-advisor", "-n", "kube-system")  # else its 15 seconds would be waited for
        parts.start("advisor", *started)
        until(lambda: f"{GAUGE} 1\n" in _metrics(port, token), "no alarm after the restart")
        assert messages(kubectl) == before
        log = parts.log("advisor")
        assert "forbidden" not in log, log
        assert parts.stop("advisor") == 0, log
        assert "Traceback" not in parts.log("advisor"), log


def _metrics(port: int, token: str) -> str:
    try:
        return fetched(port, "/metrics", token)[1]
    except OSError:
        return ""  # it has just been started


OTHERS = """
{apiVersion: v1, kind: Namespace, metadata: {name: team-b}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: secret-claim, namespace: team-b},
 spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, count: 1}}]}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: team, namespace: default}, rules: [
  {apiGroups: [""], resources: [pods], verbs: [list]},
  {apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [list]}]}
"""
HELD = {
    "allocation": {
        "devices": {"results": [{"request": "gpus", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]
        },
    }
}


def test_users_and_their_agents_get_answers_within_their_rights(folder: Path) -> None:
    with ExitStack() as stack:
        parts, port = Parts(folder, stack), free_port()
        kubectl = parts.apiserver()
        kubectl("apply", "-k", str(BASE))
        for name in ("default", "user", "stranger"):
            kubectl("create", "serviceaccount", name)
        kubectl("apply", "-f", "-", stdin=f"{objects('v1', pods=False)}\n---\n{objects('v1', pods=True)}")
        kubectl("apply", "-f", "-", stdin=OTHERS)
        patch = json.dumps({"status": HELD})
        kubectl(
            "patch",
            "resourceclaim",
            "secret-claim",
            "-n",
            "team-b",
            "--subresource=status",
            "--type=merge",
            "-p",
            patch,
        )
        kubectl("create", "rolebinding", "team", "--role=team", "--serviceaccount=default:user")
        reader = ("--clusterrole=cathedra-advisor-reader", "--serviceaccount=default:user")
        kubectl("create", "clusterrolebinding", "reader", *reader)
        user, stranger = (kubectl("create", "token", name).strip() for name in ("user", "stranger"))
        parts.start("advisor", as_account(kubectl, folder, "cathedra-advisor"), f"--secure-port={port}")
        parts.wait_for("advisor", "health and metrics at")
        until(lambda: fetched(port, "/usage?namespace=default", user)[0] == 200, "no answer")

        status, text = fetched(port, "/explain?pod=default/too-many", user)
        assert (status, json.loads(text)["result"]["subject"]) == (200, "pod default/too-many")
        status, text = fetched(port, "/devices", user)
        assert json.loads(text)["result"]["total"]["held"] == 1
        assert "(hidden)/claim-" in text
        assert "secret-claim" not in text
        assert fetched(port, "/explain?claim=team-b/secret-claim", user)[0] == 403
        status, text = fetched(port, "/devices", stranger)
        assert (status, json.loads(text)["reason"]) == (403, "Forbidden")
        assert fetched(port, "/openapi.json")[0] == 401
        assert json.loads(fetched(port, "/openapi.json", stranger)[1])["openapi"] == "3.1.0"
        asyncio.run(_agents(port, user, folder / "kubeconfig"))
        if shutil.which("prometheus") is not None:  # apt-get install prometheus
            kubectl("create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics")
            bound = ("--clusterrole=metrics", "--serviceaccount=default:stranger")
            kubectl("create", "clusterrolebinding", "metrics", *bound)
            _dashboard(port, stranger, folder, stack)

        kubectl("delete", "serviceaccount", "user")
        until(lambda: fetched(port, "/devices", user)[0] == 401, "the token still counts", seconds=30)
        parts.kill("apiserver")
        until(lambda: fetched(port, "/devices", stranger)[0] == 503, "the dead server is not noticed", seconds=30)
        assert fetched(port, "/healthz") == (200, "ok")
        assert "Traceback" not in parts.log("advisor"), parts.log("advisor")


def _dashboard(port: int, token: str, folder: Path, stack: ExitStack) -> None:
    """Prometheus scrapes the advisor, and every query of the dashboard is valid and has series where there are any."""
    own = free_port()
    scrape = {
        "job_name": "advisor",
        "scheme": "https",
        "tls_config": {"insecure_skip_verify": True},
        "authorization": {"credentials": token},
        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
    }
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("wb") as log:
        running = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=subprocess.STDOUT
        )
    stack.callback(running.wait)
    stack.callback(running.terminate)
    source = Prometheus(f"http://127.0.0.1:{own}")

    def figures(query: str) -> Sequence[dict[str, Any]]:
        try:
            return source.query("query", query=query)
        except urllib.error.HTTPError as error:
            # Prometheus listens before it has replayed its log, and answers 503 until then.
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise  # the query is invalid
            return ()
        except OSError:
            return ()  # it does not listen yet

    until(lambda: figures("cathedra_devices"), "Prometheus has no figures")
    panels = [one for one in json.loads(DASHBOARD.read_text())["panels"] if "targets" in one]
    empty = [panel["title"] for panel in panels if not any(figures(expression(target)) for target in panel["targets"])]
    assert len(empty) <= len(panels) // 2, empty


async def _agents(port: int, token: str, kubeconfig: Path) -> None:
    """The SDK's own client, over HTTP with a user's token, and over standard input with a kubeconfig."""
    mcp = pytest.importorskip("mcp", reason="the SDK mcp is missing: pip install 'cathedra[mcp]'")
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"}
    http = httpx2.AsyncClient(headers=headers, verify=False, timeout=150)
    connected = streamable_http_client(f"https://127.0.0.1:{port}/mcp", http_client=http)
    async with http, mcp.Client(connected) as agent:
        assert "explain" in [tool.name for tool in (await agent.list_tools()).tools]
        found = await agent.call_tool("explain", {"subject": "pod/too-many"})
        assert json.loads(found.content[0].text)["result"]["subject"] == "pod default/too-many"
        found = await agent.call_tool("devices", {})
        assert "secret-claim" not in found.content[0].text
        found = await agent.call_tool("explain", {"subject": "claim/secret-claim", "namespace": "team-b"})
        assert found.is_error
        assert "cannot list resource" in found.content[0].text
    command = ["-m", "cathedra.cli.main", "mcp", f"--kubeconfig={kubeconfig}"]
    async with mcp.Client(mcp.stdio_client(mcp.StdioServerParameters(command=sys.executable, args=command))) as agent:
        found = await agent.call_tool("usage", {"by": "namespace"})
        assert [one["name"] for one in json.loads(found.content[0].text)["result"]["rows"]] == ["team-b"]
        found = await agent.call_tool("explain", {})
        assert "default/too-many" in found.content[0].text
