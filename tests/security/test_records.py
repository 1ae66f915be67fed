"""Nothing is answered that is not recorded: connections to pods, refusals, and requests that break the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.apiserver.authorization.authorizer import Attributes, Decision
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.http.app import SWITCHED
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

POD = "/api/v1/namespaces/default/pods/p"
STREAMS = ("exec", "attach", "portforward")


def events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


class Broken:
    """An authorizer with a bug."""

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.name == "trouble":
            raise RuntimeError("a bug")
        return Decision(type(self).verdict)  # type: ignore[attr-defined]


def broken(asgi: ASGIClient) -> None:
    """Put a bug into the server, before its application is made."""
    from cathedra.apiserver.authorization.authorizer import Verdict

    Broken.verdict = Verdict.ALLOW  # type: ignore[attr-defined]
    asgi.server.context = msgspec.structs.replace(asgi.server.context, authorizer=Broken())


async def test_an_unhandled_error_is_answered_audited_and_counted_as_500(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with open_asgi(ServerConfig(audit_log=log)) as asgi:
        broken(asgi)
        for method in ("GET", "PUT", "DELETE"):
            answer = await asgi(method, "/api/v1/namespaces/default/configmaps/trouble", {})
            assert answer.status == 500
            assert answer.body == b"This request caused apiserver to panic. Look in the logs for details.\n"
        refused = await asgi.upgrade("/api/v1/namespaces/default/pods/trouble/exec")
        assert refused.status == 500
        text = (await asgi("GET", "/metrics")).body.decode()
    assert [event["responseStatus"]["code"] for event in events(log)][:4] == [500, 500, 500, 500]
    counted = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    assert len([line for line in counted if 'code="500"' in line]) == 4
    assert not [line for line in counted if 'code="200"' in line and "configmaps" in line]
    assert 'apiserver_current_inflight_requests{request_kind="mutating"} 0' in text


class Hungry:
    """An authorizer for which no memory is left."""

    def authorize(self, attributes: Attributes) -> Decision:
        raise MemoryError


async def test_a_request_without_memory_is_refused_in_a_sentence_and_logged_in_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_asgi() as asgi:
        asgi.server.context = msgspec.structs.replace(asgi.server.context, authorizer=Hungry())
        answer = await asgi("GET", "/api/v1/namespaces/default/configmaps/a")
    assert (answer.status, answer.json["reason"]) == (500, "InternalError")
    assert answer.json["message"] == "Internal error occurred: no memory, or no thread, is left for this request"
    assert caplog.messages == [
        "GET /api/v1/namespaces/default/configmaps/a failed: no memory, or no thread, is left for this request"
    ]
    assert caplog.records[0].exc_info is None


@pytest.mark.parametrize("stream", STREAMS)
async def test_a_connection_to_a_pod_leaves_a_line_even_if_it_was_refused(tmp_path: Path, stream: str) -> None:
    log = tmp_path / "audit.log"
    async with open_asgi(ServerConfig(audit_log=log, authorization=True)) as asgi:
        assert (await asgi.upgrade(f"{POD}/{stream}?command=id")).status == 404
        assert (await asgi.upgrade(f"{POD}/{stream}", user="")).status == 403
        assert (await asgi.upgrade(f"{POD}/{stream}", user="unknown")).status == 401
    found = events(log)
    assert [event["responseStatus"]["code"] for event in found] == [404, 403, 401]
    first, second, third = found
    assert first["objectRef"] == {
        "resource": "pods",
        "namespace": "default",
        "name": "p",
        "apiVersion": "v1",
        "subresource": stream,
    }
    assert (first["verb"], first["requestURI"]) == ("get", f"{POD}/{stream}?command=id")
    assert first["user"]["username"] == "admin"
    assert first["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert second["user"]["username"] == "system:anonymous"
    assert second["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert third["user"] == {}


async def test_a_long_request_leaves_a_line_when_it_begins_and_one_when_it_ends(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with open_asgi(ServerConfig(audit_log=log)) as asgi:
        await asgi("GET", "/api/v1/pods?watch=1&timeoutSeconds=0")
    assert [(event["stage"], event["verb"]) for event in events(log)] == [
        ("ResponseStarted", "watch"),
        ("ResponseComplete", "watch"),
    ]
    assert SWITCHED == 101


async def test_a_connection_is_counted_as_one(tmp_path: Path) -> None:
    async with open_asgi() as asgi:
        await asgi.upgrade(f"{POD}/exec")
        text = (await asgi("GET", "/metrics")).body.decode()
    counted = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    assert any('verb="CONNECT"' in line and 'subresource="exec"' in line and 'code="404"' in line for line in counted)
