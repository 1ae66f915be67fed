"""Defaults of pods and pod templates (docs/spec/apimachinery.md §16.2)."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.struct import encode, replace
from cathedra.kinds.defaults import absent, changed, each
from cathedra.remembering import IDENTITY, TEMPLATES, remembered

_LARGEST_KEY: Final = 8 * 1024
"""Bytes of JSON up to which specs are compared by it, and stay in memory."""


def default_pod(pod: core_v1.Pod) -> core_v1.Pod:
    """Return a pod with everything filled in that does not depend on other objects."""
    return changed(pod, spec=_filled(pod.spec))


def default_new_pod(pod: core_v1.Pod) -> core_v1.Pod:
    """Return a new pod with its defaults. Pods with equal specs share one object as their spec.

    Memos of later steps compare specs by identity, so the pods of a workload must share theirs.
    """
    spec = _shared(pod.spec)
    return pod if spec is pod.spec else replace(pod, spec=spec)


def _filled(spec: core_v1.PodSpec) -> core_v1.PodSpec:
    links = spec.enable_service_links
    return default_pod_spec(
        changed(
            spec,
            # Pods alone, not templates: Kubernetes leaves the requests of a template as they were written, so that a
            # changed limit of the template also changes the request of the pods made from it.
            containers=each(spec.containers, _requests_from_limits),
            init_containers=each(spec.init_containers, _requests_from_limits),
            enable_service_links=True if links is None else links,
        )
    )


def _json_of(spec: core_v1.PodSpec) -> bytes | None:
    body = encode(spec)
    return body if len(body) <= _LARGEST_KEY else None


# By identity first, because clients in the process send one object many times; JSON is encoded for other clients alone.
_shared = remembered("defaulted specs of pods", key=IDENTITY, size=TEMPLATES)(
    remembered("defaulted specs of pods by JSON", key=_json_of, size=TEMPLATES)(_filled)
)


def _requests_from_limits(container: core_v1.Container) -> core_v1.Container:
    limits, requests = container.resources.limits, container.resources.requests
    missing = {name: amount for name, amount in limits.items() if name not in requests}
    if not missing:
        return container
    return replace(container, resources=replace(container.resources, requests={**requests, **missing}))


def default_pod_template(template: core_v1.PodTemplateSpec) -> core_v1.PodTemplateSpec:
    """Return a template whose pod is filled in."""
    return replace(template, spec=default_pod_spec(template.spec))


def default_pod_spec(spec: core_v1.PodSpec) -> core_v1.PodSpec:
    """Return the defaults that pods and templates have in common."""
    container = partial(_container, host_network=spec.host_network)
    changes: dict[str, Any] = {
        "containers": each(spec.containers, container),
        "init_containers": each(spec.init_containers, container),
        # Kubernetes never defaults the host ports of ephemeral containers: their ports are refused by validation.
        "ephemeral_containers": each(spec.ephemeral_containers, partial(_container, host_network=False)),
        "volumes": each(spec.volumes, _volume),
    }
    changes |= absent(spec, dns_policy="ClusterFirst", restart_policy="Always", scheduler_name="default-scheduler")
    if spec.termination_grace_period_seconds is None:
        changes["termination_grace_period_seconds"] = 30
    if spec.security_context is None:
        changes["security_context"] = core_v1.PodSecurityContext()
    # ``serviceAccount`` is the older name of the same field. Both are kept equal, because old clients read the one and
    # newer clients the other.
    if spec.service_account_name and not spec.service_account:
        changes["service_account"] = spec.service_account_name
    if spec.service_account and not spec.service_account_name:
        changes["service_account_name"] = spec.service_account
    return changed(spec, **changes)


def _container(container: Any, *, host_network: bool) -> Any:
    changes = absent(
        container,
        termination_message_path="/dev/termination-log",
        termination_message_policy="File",
        image_pull_policy=_pull_policy(container.image),
    )
    changes["ports"] = each(container.ports, partial(_port, host_network=host_network))
    changes["env"] = each(container.env, _environment)
    for name in ("liveness_probe", "readiness_probe", "startup_probe"):
        probe = getattr(container, name)
        if probe is not None:
            changes[name] = _probe(probe)
    if container.lifecycle is not None:
        changes["lifecycle"] = _lifecycle(container.lifecycle)
    return changed(container, **changes)


_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]+)?"
_PART: Final = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?")
"""An image without a digest. What is none has no tag, either."""
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")


def _pull_policy(image: str) -> str:
    # A digest names one image for ever. A malformed image has no tag to go by, and an image ID is refused by the parser
    # of references; Kubernetes pulls none of them anew.
    if "@" in image or not _REFERENCE.fullmatch(image) or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _port(port: core_v1.ContainerPort, *, host_network: bool) -> core_v1.ContainerPort:
    changes: dict[str, Any] = absent(port, protocol="TCP")
    # A port of a pod in the host's network is the host's port. The scheduler reads host ports only, so that two such
    # pods would otherwise be placed on one node and the second could not bind its port.
    if host_network and not port.host_port:
        changes["host_port"] = port.container_port
    return changed(port, **changes)


def _environment(variable: core_v1.EnvVar) -> core_v1.EnvVar:
    source = variable.value_from
    if source is None or source.field_ref is None or source.field_ref.api_version:
        return variable
    return replace(variable, value_from=replace(source, field_ref=replace(source.field_ref, api_version="v1")))


def _probe(probe: core_v1.Probe) -> core_v1.Probe:
    changes: dict[str, Any] = {
        name: value
        for name, value in {
            "timeout_seconds": 1,
            "period_seconds": 10,
            "success_threshold": 1,
            "failure_threshold": 3,
        }.items()
        # Zero counts as unset: the fields are plain integers in Go, where an absent field decodes to 0.
        if not getattr(probe, name)
    }
    if probe.http_get is not None:
        changes["http_get"] = _http_get(probe.http_get)
    if probe.grpc is not None and probe.grpc.service is None:
        changes["grpc"] = replace(probe.grpc, service="")
    return changed(probe, **changes)


def _http_get(action: core_v1.HTTPGetAction) -> core_v1.HTTPGetAction:
    return changed(action, **absent(action, path="/", scheme="HTTP"))


def _lifecycle(lifecycle: core_v1.Lifecycle) -> core_v1.Lifecycle:
    changes = {}
    for name in ("post_start", "pre_stop"):
        handler = getattr(lifecycle, name)
        if handler is not None and handler.http_get is not None:
            changes[name] = replace(handler, http_get=_http_get(handler.http_get))
    return changed(lifecycle, **changes)


def _volume(volume: core_v1.Volume) -> core_v1.Volume:
    # A volume without a source is an empty directory. Validation runs later and would refuse it otherwise.
    if volume == core_v1.Volume(name=volume.name):
        return replace(volume, empty_dir=core_v1.EmptyDirVolumeSource())
    if volume.host_path is not None and volume.host_path.type is None:
        return replace(volume, host_path=replace(volume.host_path, type=""))
    if volume.downward_api is not None:
        items = each(volume.downward_api.items, _downward_item)
        return changed(volume, downward_api=changed(volume.downward_api, items=items, **_mode(volume.downward_api)))
    if volume.projected is not None:
        return changed(volume, projected=_projected(volume.projected))
    for name in ("secret", "config_map"):
        source = getattr(volume, name)
        if source is not None and source.default_mode is None:
            return replace(volume, **{name: replace(source, default_mode=0o644)})
    return volume


def _mode(source: Any) -> dict[str, Any]:
    return {"default_mode": 0o644} if source.default_mode is None else {}


def _downward_item(item: core_v1.DownwardAPIVolumeFile) -> core_v1.DownwardAPIVolumeFile:
    if item.field_ref is None or item.field_ref.api_version:
        return item
    return replace(item, field_ref=replace(item.field_ref, api_version="v1"))


def _projected(projected: core_v1.ProjectedVolumeSource) -> core_v1.ProjectedVolumeSource:
    # Kubernetes stores an empty list as an absent one, and writes both as null.
    sources = each(projected.sources, _projection) if projected.sources else None
    return changed(projected, sources=sources, **_mode(projected))


def _projection(source: core_v1.VolumeProjection) -> core_v1.VolumeProjection:
    filled = source
    if source.downward_api is not None:
        items = each(source.downward_api.items, _downward_item)
        filled = changed(filled, downward_api=changed(source.downward_api, items=items))
    token = source.service_account_token
    if token is not None and token.expiration_seconds is None:
        filled = replace(filled, service_account_token=replace(token, expiration_seconds=3600))
    return filled
