"""Metrics, audit, compression and deadlines, as requests meet them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.traffic.audit import AuditPolicy, PolicyError, load_policy
from cathedra.apiserver.traffic.deadlines import deadline_of
from tests.unit.apiserver.asgi import open_door

MAPS = "/api/v1/namespaces/default/configmaps"
POLICY = """
kind: Policy
apiVersion: audit.k8s.io/v1
rules:
- level: None
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
  verbs: [create]
- level: Metadata
"""


async def test_requests_are_counted_under_kubernetes_names() -> None:
    async with open_door() as door:
        await door("POST", MAPS, {"metadata": {"name": "a"}})
        await door("GET", f"{MAPS}/nobody")
        text = (await door("GET", "/metrics")).body.decode()
    assert _sample(text, "apiserver_request_total", 'code="201"', 'resource="configmaps"', 'verb="POST"') == 1
    assert _sample(text, "apiserver_request_total", 'code="404"', 'scope="resource"') == 1
    assert _sample(text, "apiserver_request_duration_seconds_count", 'verb="POST"') == 1
    assert _sample(text, "apiserver_resource_objects", 'resource="configmaps"') == 1
    assert _sample(text, "apiserver_storage_objects", 'resource="configmaps"') == 1
    assert "process_resident_memory_bytes" in text


def _sample(text: str, name: str, *labels: str) -> float:
    for line in text.splitlines():
        if line.startswith(f"{name}{{") and all(label in line for label in labels):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no {name} with {labels}")


async def audited(tmp_path: Path, policy: AuditPolicy) -> list[dict[str, Any]]:
    """What the log holds after three requests."""
    log = tmp_path / "audit.log"
    async with open_door(ServerConfig(audit_log=log, audit_policy=policy)) as door:
        await door("POST", MAPS, {"metadata": {"name": "a"}})
        await door("GET", f"{MAPS}/a")
        await door("GET", "/api/v1/namespaces/default/secrets")
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_every_request_is_written_down(tmp_path: Path) -> None:
    events = await audited(tmp_path, AuditPolicy())
    assert [(event["verb"], event["responseStatus"]["code"]) for event in events] == [
        ("create", 201),
        ("get", 200),
        ("list", 200),
    ]
    first = events[0]
    assert first["level"] == "Metadata"
    assert first["user"]["username"] == "admin"
    named = {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"}
    assert first["objectRef"] == named
    assert "requestObject" not in first


async def test_a_policy_chooses_what_is_written_down(tmp_path: Path) -> None:
    events = await audited(tmp_path, load_policy(POLICY))
    assert [event["level"] for event in events] == ["RequestResponse", "Metadata"]
    assert events[0]["requestObject"]["metadata"] == {"name": "a"}
    assert events[0]["responseObject"]["kind"] == "ConfigMap"


@pytest.mark.parametrize("text", ["[", "kind: Pod", "kind: Policy\nrules: [{level: Sometimes}]"])
def test_a_policy_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        load_policy(text)


async def test_large_answers_are_small_for_clients_that_take_gzip() -> None:
    async with open_door() as door:
        for number in range(3):
            await door("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": {"k": "x" * 100_000}})
        plain = await door("GET", MAPS)
        small = await door("GET", MAPS, accept_encoding="gzip, br")
    assert plain.header("content-encoding") == ""
    assert small.header("content-encoding") == "gzip"
    assert json.loads(gzip.decompress(small.body)) == plain.json
    assert len(small.body) < len(plain.body) // 10


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 60), ("0", 60), ("1s", 1), ("1m30s", 60), ("250ms", 0.25), ("-1s", 60), ("1.5s", 1.5)]
)
def test_a_request_says_how_long_it_may_take(text: str, seconds: float) -> None:
    assert deadline_of(text) == seconds


def test_a_duration_that_is_none_is_refused() -> None:
    with pytest.raises(StatusError, match='time: invalid duration "x"'):
        deadline_of("x")
