"""Pods that their namespace does not want."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.apps_v1 import Deployment, DeploymentSpec
from cathedra.api.core.core_v1 import Namespace, Pod, PodTemplateSpec
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import DEPLOYMENTS, NAMESPACES, PODS
from tests.running import run_with
from tests.unit.apiserver.asgi import ASGIClient, open_asgi
from tests.unit.apiserver.guarded import Guarded, guarded, refused

PREFIX = "pod-security.kubernetes.io/"
BARE: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
SHARED: dict[str, Any] = {**BARE, "hostNetwork": True}


def pod(name: str, spec: dict[str, Any]) -> Pod:
    return from_dict(Pod, {"metadata": {"name": name, "namespace": "n"}, "spec": spec})


async def namespace(api: Guarded, **labels: str) -> Namespace:
    labelled = {f"{PREFIX}{name.replace('_', '-')}": value for name, value in labels.items()}
    return await api.admin.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name="n", labels=labelled)))


@run_with(guarded)
async def test_a_pod_that_breaks_the_enforced_level_is_refused(api: Guarded) -> None:
    await namespace(api, enforce="baseline")
    pods = api.admin.resource(PODS, "n")
    assert await refused(pods.create(pod("p", SHARED))) == (
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    )
    await pods.create(pod("p", BARE))


@run_with(guarded)
async def test_a_namespace_without_labels_takes_all_pods(api: Guarded) -> None:
    await namespace(api)
    await api.admin.resource(PODS, "n").create(pod("p", SHARED))


@run_with(guarded)
async def test_an_image_may_not_be_changed_in_a_pod_that_would_not_be_let_in_any_more(api: Guarded) -> None:
    made = await namespace(api)
    pods = api.admin.resource(PODS, "n")
    running = await pods.create(pod("p", SHARED))
    labels = {f"{PREFIX}enforce": "baseline"}
    await api.admin.resource(NAMESPACES).update(replace(made, metadata=replace(made.metadata, labels=labels)))
    labelled = replace(running, metadata=replace(running.metadata, labels={"a": "b"}))
    running = await pods.update(labelled)
    (container,) = running.spec.containers
    changed = replace(running, spec=replace(running.spec, containers=(replace(container, image="j"),)))
    assert "violates PodSecurity" in await refused(pods.update(changed))


@run_with(guarded)
async def test_labels_that_make_no_sense_are_refused_where_they_are_new(api: Guarded) -> None:
    said = await refused(namespace(api, enforce="strict"), 422)
    assert said.startswith(f'Namespace "n" is invalid: metadata.labels[{PREFIX}enforce]: Invalid value: "strict"')


async def warned(asgi: ASGIClient, method: str, path: str, body: Any, **options: Any) -> list[str]:
    """The warnings of an answer that is no refusal."""
    answer = await asgi(method, path, body, **options)
    assert answer.status in (200, 201), answer.body
    return [value.decode() if isinstance(value, bytes) else value for key, value in answer.headers if key == "warning"]


async def test_workloads_and_pods_are_warned_of() -> None:
    labels = {f"{PREFIX}warn": "baseline"}
    async with open_asgi() as asgi:
        made = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "n", "labels": labels}}
        assert await warned(asgi, "POST", "/api/v1/namespaces", made) == []
        text = 'would violate PodSecurity \\"baseline:latest\\": host namespaces (hostNetwork=true)'
        shared = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": SHARED}
        assert await warned(asgi, "POST", "/api/v1/namespaces/n/pods", shared) == [f'299 - "{text}"']
        template = {"metadata": {"labels": {"a": "b"}}, "spec": SHARED}
        workload = {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        }
        assert await warned(asgi, "POST", "/apis/apps/v1/namespaces/n/deployments", workload) == [f'299 - "{text}"']


async def test_a_namespace_that_begins_to_enforce_says_which_pods_it_has() -> None:
    async with open_asgi() as asgi:
        for name in ("b", "a", "c"):
            spec = SHARED if name != "c" else BARE
            body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}
            await asgi("POST", "/api/v1/namespaces/default/pods", body)
        change = {"metadata": {"labels": {f"{PREFIX}enforce": "baseline"}}}
        merge = "application/merge-patch+json"
        assert await warned(asgi, "PATCH", "/api/v1/namespaces/default", change, content_type=merge) == [
            '299 - "existing pods in namespace \\"default\\" violate the new PodSecurity enforce level '
            '\\"baseline:latest\\""',
            '299 - "a (and 1 other pod): host namespaces"',
        ]


@run_with(guarded)
async def test_a_workload_is_never_refused(api: Guarded) -> None:
    await namespace(api, enforce="restricted")
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"a": "b"}), spec=pod("p", SHARED).spec)
    spec = DeploymentSpec(selector=LabelSelector(match_labels={"a": "b"}), template=template)
    made = Deployment(metadata=ObjectMeta(name="d"), spec=spec)
    await api.admin.resource(DEPLOYMENTS, "n").create(made)
