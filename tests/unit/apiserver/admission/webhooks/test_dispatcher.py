"""Webhooks over real TLS on the loopback: requests, allowed changes, and failures."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cathedra.api.core.admissionregistration_v1 import (
    MatchCondition,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ServiceReference,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from cathedra.api.core.core_v1 import (
    ConfigMap,
    Container,
    ContainerPort,
    Pod,
    PodCondition,
    PodSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from cathedra.api.core.meta_v1 import DeleteOptions, LabelSelector, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.certificates.authority import Authority
from cathedra.client.resources import CONFIGMAPS, PODS, SERVICES, resource_ref
from cathedra.client.transport import APICall, WriteOptions
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded

MUTATING = resource_ref(MutatingWebhookConfiguration, "mutatingwebhookconfigurations", namespaced=False)
VALIDATING = resource_ref(ValidatingWebhookConfiguration, "validatingwebhookconfigurations", namespaced=False)
MAPS = RuleWithOperations(api_groups=("",), api_versions=("v1",), resources=("configmaps",), operations=("*",))
Verdict = Callable[[dict[str, Any]], dict[str, Any]]


class Webhooks:
    """A TLS server with webhooks by path, an API server that trusts it, and the reviews that were sent."""

    def __init__(self, server: APIServer, url: str, bundle: bytes) -> None:
        self.server = server
        self.api = server.transport()
        self.url = url
        self.bundle = bundle
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.verdicts: dict[str, Verdict] = {}
        self.in_pieces: set[str] = set()

    def client_config(self, path: str) -> WebhookClientConfig:
        """Return the client configuration of the webhook at that path."""
        return WebhookClientConfig(url=f"{self.url}/{path}", ca_bundle=self.bundle)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Handle a review in the TLS server."""
        review = await request.json()
        path = request.path.strip("/")
        self.asked.append((path, review["request"]))
        if path not in self.verdicts:
            return web.Response(status=500, text="broken")
        response = {"uid": review["request"]["uid"], **self.verdicts[path](review["request"])}
        whole = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        if path not in self.in_pieces:
            return web.json_response(whole)
        return await _in_two_pieces(request, json.dumps(whole).encode())

    async def validating(self, path: str, verdict: Verdict | None, **more: Any) -> None:
        """Register a validating webhook."""
        if verdict is not None:
            self.verdicts[path] = verdict
        settings = {"rules": (MAPS,), "side_effects": "None", "admission_review_versions": ("v1",), **more}
        settings.setdefault("client_config", self.client_config(path))
        hook = ValidatingWebhook(name=f"{path}.example.com", **settings)
        configuration = ValidatingWebhookConfiguration(metadata=ObjectMeta(name=path), webhooks=(hook,))
        await self.api.call(APICall("create", VALIDATING, "", body=configuration))

    async def mutating(self, path: str, verdict: Verdict, **more: Any) -> None:
        """Register a mutating webhook."""
        self.verdicts[path] = verdict
        settings = {"rules": (MAPS,), "side_effects": "None", "admission_review_versions": ("v1",), **more}
        hook = MutatingWebhook(name=f"{path}.example.com", client_config=self.client_config(path), **settings)
        configuration = MutatingWebhookConfiguration(metadata=ObjectMeta(name=path), webhooks=(hook,))
        await self.api.call(APICall("create", MUTATING, "", body=configuration))

    async def run_pod(self) -> None:
        """A ready pod whose port is the TLS server's."""
        opened = ContainerPort(name="https", container_port=int(self.url.rpartition(":")[2]))
        container = Container(name="c", image="i", ports=(opened,))
        pod = Pod(metadata=ObjectMeta(name="p", labels={"app": "hooks"}), spec=PodSpec(containers=(container,)))
        made = await self.api.call(APICall("create", PODS, "default", body=pod))
        ready = PodCondition(type="Ready", status="True")
        running = replace(made.status, phase="Running", pod_ip="127.0.0.1", conditions=(ready,))
        await self.api.call(
            APICall("update", PODS, "default", made.metadata.name, "status", body=replace(made, status=running))
        )

    async def create(self, name: str = "m", *, dry_run: bool = False, **labels: str) -> ConfigMap:
        """Create a config map."""
        made: ConfigMap = await self.api.call(
            APICall(
                "create",
                CONFIGMAPS,
                "default",
                body=ConfigMap(metadata=ObjectMeta(name=name, labels=labels)),
                options=WriteOptions(dry_run=dry_run),
            )
        )
        return made


async def _in_two_pieces(request: web.Request, body: bytes) -> web.StreamResponse:
    """Send ``body`` in two chunks with a pause, so that the client's first read returns only half of it."""
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    await answer.prepare(request)
    await answer.write(body[: len(body) // 2])
    await asyncio.sleep(0.05)
    await answer.write(body[len(body) // 2 :])
    await answer.write_eof()
    return answer


@asynccontextmanager
async def webhooks(folder: Path) -> AsyncIterator[Webhooks]:
    authority = Authority.make(time.time())
    pair = authority.server(("127.0.0.1", "hooks.default.svc"), time.time())
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    application = web.Application()
    runner = web.AppRunner(application)
    config = ServerConfig(gates=FeatureGates.for_release(), authorization=True)
    server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    hooks = Webhooks(server, "", authority.pair.certificate)
    application.router.add_post("/{path}", hooks.answer)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    hooks.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield hooks
    finally:
        await server.close()
        await runner.cleanup()


def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def deny(**status: Any) -> Verdict:
    return lambda _: {"allowed": False, **({"status": status} if status else {})}


def patch(*operations: dict[str, Any]) -> Verdict:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def label(key: str, value: str) -> dict[str, Any]:
    return {"op": "add", "path": f"/metadata/labels/{key}", "value": value}


async def test_a_webhook_is_told_who_does_what(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        await hooks.validating("look", allow)
        await hooks.create(a="b")
        (path, request), *others = hooks.asked
        assert (path, others) == ("look", [])
        assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
        assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert (request["operation"], request["namespace"], request["name"]) == ("CREATE", "default", "m")
        assert request["userInfo"]["username"] == "system:admin"
        assert request["object"]["metadata"]["labels"] == {"a": "b"}
        assert request["oldObject"] is None


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({}, 400, "without explanation"),
        ({"message": "not today"}, 400, ": not today"),
        ({"message": "not today", "code": 403, "reason": "Forbidden"}, 403, ": not today"),
        ({"code": 200, "reason": "Odd"}, 400, ": Odd"),
    ],
)
async def test_a_refusal_carries_the_webhooks_words_and_code(
    tmp_path: Path, status: dict[str, Any], code: int, message: str
) -> None:
    async with webhooks(tmp_path) as hooks:
        await hooks.validating("no", deny(**status))
        with pytest.raises(StatusError) as caught:
            await hooks.create()
        assert caught.value.code == code
        assert caught.value.status.message.startswith('admission webhook "no.example.com" denied the request')
        assert caught.value.status.message.endswith(message)


async def test_a_broken_webhook_refuses_unless_it_is_to_be_ignored(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        await hooks.validating("lenient", None, failure_policy="Ignore")
        await hooks.create("a")
        await hooks.validating("strict", None, failure_policy="Fail")
        with pytest.raises(StatusError) as caught:
            await hooks.create("b")
        assert caught.value.code == 500
        assert 'failed calling webhook "strict.example.com": failed to call webhook: ' in caught.value.status.message
        assert "SSLContext" not in caught.value.status.message


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_an_answer_in_two_pieces_is_read_to_its_end(tmp_path: Path, policy: str) -> None:
    async with webhooks(tmp_path) as hooks:
        hooks.in_pieces = {"refusing", "allowing"}
        await hooks.validating("allowing", lambda _: {"allowed": True}, failure_policy=policy)
        await hooks.create("let-in")
        await hooks.validating("refusing", lambda _: {"allowed": False}, failure_policy=policy)
        with pytest.raises(StatusError, match="denied the request"):
            await hooks.create("refused")


async def test_an_answer_that_is_too_long_is_a_failed_call(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        long = {"allowed": True, "status": {"message": "x" * (3 * 1024 * 1024)}}
        await hooks.validating("long", lambda _: long)
        with pytest.raises(StatusError, match="the answer is longer than 3145728 bytes"):
            await hooks.create()


async def test_a_certificate_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        hooks.bundle = Authority.make(time.time()).pair.certificate
        await hooks.validating("stranger", allow)
        with pytest.raises(StatusError) as caught:
            await hooks.create()
        assert (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            in caught.value.status.message
        )
        assert hooks.asked == []


async def test_patches_are_applied_and_seen_by_later_webhooks(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        await hooks.mutating("a-first", patch({"op": "add", "path": "/data", "value": {"k": "v"}}))
        await hooks.mutating("b-second", patch({"op": "add", "path": "/data/l", "value": "w"}))
        await hooks.validating("look", allow)
        made = await hooks.create()
        assert made.data == {"k": "v", "l": "w"}
        assert hooks.asked[-1][1]["object"]["data"] == {"k": "v", "l": "w"}


async def test_only_who_wants_it_is_asked_again_when_another_changed_the_object(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        await hooks.mutating("a-again", allow, reinvocation_policy="IfNeeded")
        await hooks.mutating("b-once", allow, reinvocation_policy="Never")
        await hooks.mutating("c-changes", patch(label("x", "y")), reinvocation_policy="IfNeeded")
        made = await hooks.create(a="b")
        assert made.metadata.labels == {"a": "b", "x": "y"}
        assert [path for path, _ in hooks.asked] == ["a-again", "b-once", "c-changes", "a-again"]


async def test_a_patch_that_does_not_fit_refuses(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        await hooks.mutating("bad", patch({"op": "remove", "path": "/data/none"}))
        with pytest.raises(StatusError) as caught:
            await hooks.create()
        assert caught.value.code == 500


async def test_labels_of_object_and_namespace_and_conditions_choose(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        await hooks.validating("object", allow, object_selector=LabelSelector(match_labels={"a": "b"}))
        home = LabelSelector(match_labels={"kubernetes.io/metadata.name": "elsewhere"})
        await hooks.validating("namespace", allow, namespace_selector=home)
        condition = MatchCondition("named", "object.metadata.name.startsWith('x')")
        await hooks.validating("condition", allow, match_conditions=(condition,))
        await hooks.create("m")
        assert hooks.asked == []
        await hooks.create("x", a="b")
        assert sorted(path for path, _ in hooks.asked) == ["condition", "object"]


async def test_a_condition_that_cannot_be_evaluated_refuses(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        condition = MatchCondition("broken", "object.data.none == 'a'")
        await hooks.validating("condition", allow, match_conditions=(condition,), failure_policy="Fail")
        with pytest.raises(StatusError) as caught:
            await hooks.create()
        assert caught.value.code == 403
        assert hooks.asked == []


async def test_a_webhook_is_told_of_a_dry_run(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        await hooks.validating("harmless", allow, side_effects="NoneOnDryRun")
        await hooks.create("a", dry_run=True)
        assert hooks.asked[0][1]["dryRun"] is True


async def test_webhooks_are_not_asked_about_webhooks(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        everything = RuleWithOperations(api_groups=("*",), api_versions=("*",), resources=("*",), operations=("*",))
        await hooks.validating("no", deny(), rules=(everything,))
        await hooks.api.call(APICall("delete", VALIDATING, "", "no", body=DeleteOptions()))
        await hooks.create()


async def test_a_webhook_behind_a_service_is_reached_at_a_ready_pod(tmp_path: Path) -> None:
    async with webhooks(tmp_path) as hooks:
        reference = ServiceReference(namespace="default", name="hooks", path="/look")
        config = WebhookClientConfig(service=reference, ca_bundle=hooks.bundle)
        await hooks.validating("look", allow, client_config=config)
        with pytest.raises(StatusError, match='service "hooks" not found'):
            await hooks.create()
        port = ServicePort(port=443, target_port="https")
        spec = ServiceSpec(selector={"app": "hooks"}, ports=(port,))
        await hooks.api.call(
            APICall("create", SERVICES, "default", body=Service(metadata=ObjectMeta(name="hooks"), spec=spec))
        )
        with pytest.raises(StatusError, match='no endpoints available for service "hooks"'):
            await hooks.create()
        await hooks.run_pod()
        await hooks.create()
        assert [path for path, _ in hooks.asked] == ["look"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"side_effects": None}, "webhooks[0].sideEffects"),
        ({"side_effects": "Some"}, "webhooks[0].sideEffects"),
        ({"admission_review_versions": ()}, "webhooks[0].admissionReviewVersions"),
        ({"admission_review_versions": ("v9",)}, "webhooks[0].admissionReviewVersions"),
        ({"timeout_seconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"failure_policy": "Maybe"}, "webhooks[0].failurePolicy"),
        ({"client_config": WebhookClientConfig()}, "webhooks[0].clientConfig"),
        ({"client_config": WebhookClientConfig(url="http://host/path")}, "webhooks[0].clientConfig.url"),
        ({"client_config": WebhookClientConfig(url="https://host/?a=b")}, "webhooks[0].clientConfig.url"),
        ({"rules": (RuleWithOperations(),)}, "webhooks[0].rules[0].operations"),
    ],
)
@run_with(guarded)
async def test_a_configuration_that_breaks_the_rules_is_refused(
    api: Guarded, *, changes: dict[str, Any], field: str
) -> None:
    good = ValidatingWebhook(
        name="a.example.com",
        client_config=WebhookClientConfig(url="https://127.0.0.1/a"),
        rules=(MAPS,),
        side_effects="None",
        admission_review_versions=("v1",),
    )
    bad = ValidatingWebhookConfiguration(metadata=ObjectMeta(name="a"), webhooks=(replace(good, **changes),))
    with pytest.raises(StatusError) as caught:
        await api.admin.resource(VALIDATING).create(bad)
    assert caught.value.code == 422
    assert caught.value.causes[0].field == field
