"""The audit log: which requests are in it, and how much of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.traffic.audit import AuditPolicy, PolicyError, load_policy
from tests.unit.apiserver.asgi import open_asgi

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


async def audited(tmp_path: Path, policy: AuditPolicy) -> list[dict[str, Any]]:
    """What the log holds after three requests."""
    log = tmp_path / "audit.log"
    async with open_asgi(ServerConfig(audit_log=log, audit_policy=policy)) as asgi:
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        await asgi("GET", f"{MAPS}/a")
        await asgi("GET", "/api/v1/namespaces/default/secrets")
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
