"""The audit log: which requests are in it, and how much of them."""

from __future__ import annotations

import asyncio
import json
import resource
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.pipeline.audit import AuditLog, AuditPolicy, PolicyError, load_policy
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.requestinfo import request_info
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
    """Return the content of the log after three requests."""
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "no YAML"),
        ("kind: Pod", "kind: Policy"),
        ("kind: Policy\nrules: [{level: Sometimes}]", r"rules\[0\]\.level"),
        ("kind: Policy\nomitStages: [Never]", r"omitStages\[0\]: must be one of RequestReceived"),
        ("kind: Policy\nrules: [{level: None, resources: [{resourceNames: [a]}]}]", "requires at least one resource"),
        ("kind: Policy\nrules: [{level: None, namespaces: [a], nonResourceURLs: [/a]}]", "cannot apply to both"),
        ("kind: Policy\nrules: [{level: None, nonResourceURLs: ['/a*b']}]", r"nonResourceURLs\[0\]"),
    ],
)
def test_a_policy_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        load_policy(text)


@pytest.mark.parametrize(
    ("rule", "path", "fits"),
    [
        ("resources: [{resources: [configmaps], resourceNames: [a]}]", f"{MAPS}/a", True),
        ("resources: [{resources: [configmaps], resourceNames: [a]}]", f"{MAPS}/b", False),
        ("resources: [{resources: [configmaps], resourceNames: [a]}]", MAPS, False),
        ("resources: [{group: apps, resources: ['*/scale']}]", "/apis/apps/v1/namespaces/n/deployments/d/scale", True),
        ("resources: [{group: apps, resources: ['deployments/*']}]", "/apis/apps/v1/namespaces/n/deployments/d", True),
        (
            "resources: [{group: apps, resources: [deployments]}]",
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            False,
        ),
        ("resources: [{group: apps}]", "/apis/apps/v1/namespaces/n/deployments/d/scale", True),
        ("nonResourceURLs: ['/heal*']", "/healthz", True),
        ("nonResourceURLs: ['*']", MAPS, False),
        ("namespaces: [default]", "/healthz", False),
    ],
)
def test_a_rule_matches_as_that_of_kube_apiserver(rule: str, path: str, fits: bool) -> None:
    policy = load_policy(f"kind: Policy\nrules: [{{level: Metadata, {rule}}}]")
    request = RequestRecord(request_info("GET", path), b"", "", 0.0)
    assert (policy.rule(request).level == "Metadata") is fits


async def test_stages_are_left_out(tmp_path: Path) -> None:
    text = "kind: Policy\nrules: [{level: Metadata, omitStages: [ResponseComplete]}]"
    assert await audited(tmp_path, load_policy(text)) == []
    assert await audited(tmp_path / "b", load_policy("kind: Policy\nomitStages: [Panic]\nrules: [{level: Metadata}]"))


@pytest.mark.parametrize(
    ("policy", "rule", "omitted"),
    [("true", "", True), ("true", ", omitManagedFields: false", False), ("false", "", False)],
)
async def test_managed_fields_are_left_out(tmp_path: Path, policy: str, rule: str, omitted: bool) -> None:
    text = f"kind: Policy\nomitManagedFields: {policy}\nrules: [{{level: RequestResponse{rule}}}]"
    owned = {"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}}
    log = AuditLog(tmp_path / "audit.log", load_policy(text))
    made = RequestRecord(request_info("GET", MAPS), b"", "", 0.0)
    made.request_body, made.response_body = json.dumps(owned).encode(), json.dumps({"items": [owned]}).encode()
    log.write(made, "ResponseComplete", 0.0, 0.0)
    log.close()
    event = json.loads((tmp_path / "audit.log").read_text())
    shown = {"metadata": {"name": "a"}} if omitted else owned
    assert (event["requestObject"], event["responseObject"]) == (shown, {"items": [shown]})


def record(agent: str) -> RequestRecord:
    """A request whose audit event is about as long as its user agent, and 400 bytes."""
    return RequestRecord(request_info("GET", MAPS), b"", "", 0.0, status=200, user_agent=agent)


async def test_lines_of_several_logs_on_one_file_never_mix(tmp_path: Path) -> None:
    """Batches are larger than a buffer of 8 KiB and no multiple of it."""
    path, batches, together = tmp_path / "audit.log", 30, 37
    barrier = Barrier(2)

    async def write(sign: str) -> None:
        log = AuditLog(path, AuditPolicy())
        for _ in range(batches):
            for _ in range(together):
                log.write(record(sign * 1000), "ResponseComplete", 0.0, 0.0)
            barrier.wait(30)
            await asyncio.sleep(0)
        log.close()
        assert log.written == batches * together

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, write(sign)) for sign in "ab"))
    agents = [json.loads(line)["userAgent"] for line in path.read_text().splitlines()]
    assert [agents.count(sign * 1000) for sign in "ab"] == [batches * together] * 2
    switches = sum(one != following for one, following in pairwise(agents))
    assert switches < 2 * batches, "a batch is in one piece"


async def test_a_line_that_was_torn_by_a_full_disk_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path, AuditPolicy())
    log.write(record("first"), "ResponseComplete", 0.0, 0.0)
    log.write(record("torn" * 1000), "ResponseComplete", 0.0, 0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, hard))
    try:
        await asyncio.sleep(0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (log.written, path.stat().st_size) == (0, 1500)
    log.write(record("later"), "ResponseComplete", 0.0, 0.0)
    log.close()
    first, torn, later = path.read_text().splitlines()
    assert [json.loads(line)["userAgent"] for line in (first, later)] == ["first", "later"]
    assert torn.endswith("torn")
    assert log.written == 1


async def test_a_long_user_agent_is_cut_as_kubernetes_cuts_it(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with open_asgi(ServerConfig(audit_log=log)) as asgi:
        await asgi("GET", f"{MAPS}/a", **{"user-agent": "a" * 5000})
    (event,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert event["userAgent"] == "a" * 1024 + "...TRUNCATED"
