"""Rules of containers, init containers and ephemeral containers, with their probes and lifecycle handlers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.api.struct import json_names
from cathedra.kinds.core.pods.validation._resources import validate_container_resources
from cathedra.kinds.core.pods.validation._security import validate_container_security
from cathedra.kinds.core.pods.validation._volumes import (
    ENVIRONMENT_FIELDS,
    validate_devices,
    validate_field_reference,
    validate_mounts,
    validate_resource_reference,
)
from cathedra.semantics.pods import is_sidecar

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PORTS: Final = range(1, 65536)
_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_EPHEMERAL: Final = frozenset(
    (
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "env",
        "envFrom",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
    )
)
"""Fields that an ephemeral container may have."""
_RESIZED: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
_NOT_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"


class PodReferences(msgspec.Struct, frozen=True):
    """Names in a pod that its containers may refer to."""

    volumes: frozenset[str]
    claims: frozenset[str]
    own_users: bool = False
    """True if the pod has users of its own."""
    grace: int | None = None
    """Seconds that the pod has to end."""
    restart_policy: str = "Always"
    """True if the pod's containers are started again."""
    blocks: frozenset[str] = frozenset()
    """Those of the volumes that can be block devices."""


def validate_containers(
    errors: ErrorList, path: FieldPath, containers: Sequence[core_v1.Container], around: PodReferences
) -> None:
    """Require that a pod has at least one container, each with a name of its own."""
    if not containers:
        errors.required(path)
        return
    seen: set[str] = set()
    for position, container in enumerate(containers):
        where = path.index(position)
        _common(errors, where, container, around)
        if container.name in seen:
            errors.duplicate(where.child("name"), container.name)
        seen.add(container.name)
        validate_lifecycle(errors, where.child("lifecycle"), container.lifecycle, around.grace)
        validate_probes(errors, where, container)
        if container.restart_policy not in (None, *_RESTART_POLICIES):
            errors.not_supported(where.child("restartPolicy"), container.restart_policy, _RESTART_POLICIES)
    # Host ports of init containers are not compared: they end before the others begin.
    _host_ports(errors, path, containers)


def validate_init_containers(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec, around: PodReferences) -> None:
    """Require that init containers share the names of the others; only those that keep running have probes."""
    seen = {container.name for container in spec.containers}
    for position, container in enumerate(spec.init_containers):
        where = path.index(position)
        _common(errors, where, container, around)
        if container.name in seen:
            errors.duplicate(where.child("name"), container.name)
        # Empty names are reported as missing, not as duplicates of each other.
        elif container.name:
            seen.add(container.name)
        if is_sidecar(container):
            validate_lifecycle(errors, where.child("lifecycle"), container.lifecycle, around.grace)
            validate_probes(errors, where, container)
            continue
        if container.restart_policy not in (None, *_RESTART_POLICIES):
            errors.not_supported(where.child("restartPolicy"), container.restart_policy, _RESTART_POLICIES)
        for name, value in (
            ("lifecycle", container.lifecycle),
            ("livenessProbe", container.liveness_probe),
            ("readinessProbe", container.readiness_probe),
            ("startupProbe", container.startup_probe),
        ):
            if value is not None:
                errors.forbidden(where.child(name), _ONLY_SIDECARS)


def validate_ephemeral_containers(
    errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec, around: PodReferences
) -> None:
    """Require that ephemeral containers have no resources, ports or probes: they must not matter to the pod."""
    others = {container.name for container in (*spec.containers, *spec.init_containers)}
    seen: set[str] = set()
    for position, container in enumerate(spec.ephemeral_containers):
        where = path.index(position)
        _common(errors, where, container, around)
        if container.name in others or container.name in seen:
            errors.duplicate(where.child("name"), container.name)
        seen.add(container.name)
        target = container.target_container_name
        if target and target not in others:
            errors.not_found(where.child("targetContainerName"), target)
        # A list of what is allowed, not of what is forbidden: a field that a new release adds is refused by itself.
        for attribute, name in json_names(type(container)).items():
            if name not in _EPHEMERAL and not _is_empty(getattr(container, attribute)):
                errors.forbidden(where.child(name), _NOT_EPHEMERAL)
        for number, mount in enumerate(container.volume_mounts):
            for name, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
                if value:
                    errors.forbidden(where.child("volumeMounts").index(number).child(name), _NOT_EPHEMERAL)


def _is_empty(value: Any) -> bool:
    return value in (None, (), "", False) or value == core_v1.ResourceRequirements()


def _common(errors: ErrorList, path: FieldPath, container: Any, around: PodReferences) -> None:
    if container.name:
        check(errors, path.child("name"), container.name, formats.dns_label)
    else:
        errors.required(path.child("name"))
    if not container.image:
        errors.required(path.child("image"))
    if not container.termination_message_policy:
        errors.required(path.child("terminationMessagePolicy"))
    elif container.termination_message_policy not in _MESSAGE_POLICIES:
        where = path.child("terminationMessagePolicy")
        errors.not_among(where, container.termination_message_policy, _MESSAGE_POLICIES)
    _ports(errors, path.child("ports"), container.ports)
    _environment(errors, path.child("env"), container.env)
    _environment_sources(errors, path.child("envFrom"), container.env_from)
    validate_mounts(errors, path.child("volumeMounts"), container, around.volumes)
    validate_devices(errors, path.child("volumeDevices"), container, around.volumes, around.blocks)
    _one_of(errors, path.child("imagePullPolicy"), container.image_pull_policy, _PULL_POLICIES)
    validate_container_resources(errors, path.child("resources"), container.resources, around.claims)
    _resizing(errors, path.child("resizePolicy"), container.resize_policy, around.restart_policy)
    validate_container_security(
        errors, path.child("securityContext"), container.security_context, own_users=around.own_users
    )


def _resizing(
    errors: ErrorList, path: FieldPath, policies: Sequence[core_v1.ContainerResizePolicy], restart_policy: str
) -> None:
    """Validate a list of resize policies. Kubernetes reports its errors at the list, except those of repeated
    elements."""
    seen: set[str] = set()
    for position, policy in enumerate(policies):
        if policy.resource_name in seen:
            errors.duplicate(path.index(position), policy.resource_name)
        seen.add(policy.resource_name)
        _one_of(errors, path, policy.resource_name, _RESIZED)
        _one_of(errors, path, policy.restart_policy, _RESIZE_POLICIES)
        if restart_policy == "Never" and policy.restart_policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.invalid(path, policy.restart_policy, text)


def _one_of(errors: ErrorList, path: FieldPath, value: str, known: Sequence[str]) -> None:
    if not value:
        errors.required(path)
    elif value not in known:
        errors.not_supported(path, value, known)


def _ports(errors: ErrorList, path: FieldPath, ports: Sequence[core_v1.ContainerPort]) -> None:
    seen: set[str] = set()
    for position, port in enumerate(ports):
        where = path.index(position)
        if port.name:
            problems = port_name(port.name)
            for problem in problems:
                errors.invalid(where.child("name"), port.name, problem)
            # A name with errors is not reported as a duplicate as well.
            if not problems and port.name in seen:
                errors.duplicate(where.child("name"), port.name)
            seen.add(port.name)
        # Go has no absent number here: 0 means that the field is missing.
        if port.container_port == 0:
            errors.required(where.child("containerPort"))
        else:
            _port(errors, where.child("containerPort"), port.container_port)
        if port.host_port:
            _port(errors, where.child("hostPort"), port.host_port)
        _one_of(errors, where.child("protocol"), port.protocol, _PROTOCOLS)


def _port(errors: ErrorList, path: FieldPath, number: int) -> None:
    if number not in _PORTS:
        errors.invalid(path, number, "must be between 1 and 65535, inclusive")


def _host_ports(errors: ErrorList, path: FieldPath, containers: Sequence[core_v1.Container]) -> None:
    taken: set[str] = set()
    for position, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if not port.host_port:
                continue
            # Different addresses of the node may have the same port.
            key = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if key in taken:
                where = path.index(position).child("ports").index(number).child("hostPort")
                errors.duplicate(where, key)
            taken.add(key)


_ENV_NAME: Final = re.compile(r"[ -<>-~]+")
_ENV_NAME_TEXT: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)


def _environment(errors: ErrorList, path: FieldPath, variables: Sequence[core_v1.EnvVar]) -> None:
    for position, variable in enumerate(variables):
        where = path.index(position)
        if not variable.name:
            errors.required(where.child("name"))
        elif not _ENV_NAME.fullmatch(variable.name):
            errors.invalid(where.child("name"), variable.name, _ENV_NAME_TEXT)
        if variable.value_from is not None:
            _source(errors, where.child("valueFrom"), variable, variable.value_from)


def _source(errors: ErrorList, path: FieldPath, variable: core_v1.EnvVar, source: core_v1.EnvVarSource) -> None:
    count = 0
    if source.field_ref is not None:
        count += 1
        validate_field_reference(errors, path.child("fieldRef"), source.field_ref, ENVIRONMENT_FIELDS)
    if source.resource_field_ref is not None:
        count += 1
        validate_resource_reference(errors, path.child("resourceFieldRef"), source.resource_field_ref)
    for name, key in (("configMapKeyRef", source.config_map_key_ref), ("secretKeyRef", source.secret_key_ref)):
        if key is None:
            continue
        count += 1
        check(errors, path.child(name, "name"), key.name, formats.dns_subdomain)
        if not key.key:
            errors.required(path.child(name, "key"))
    if count == 0:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.invalid(path, "", text)
    # In this order: Kubernetes reports only the first of these errors.
    elif variable.value:
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        errors.invalid(path, "", "may not have more than one field specified at a time")


def _environment_sources(errors: ErrorList, path: FieldPath, sources: Sequence[core_v1.EnvFromSource]) -> None:
    for position, source in enumerate(sources):
        where = path.index(position)
        given = [
            (name, reference)
            for name, reference in (("configMapRef", source.config_map_ref), ("secretRef", source.secret_ref))
            if reference is not None
        ]
        if source.prefix and not _ENV_NAME.fullmatch(source.prefix):
            errors.invalid(where.child("prefix"), source.prefix, _ENV_NAME_TEXT)
        for name, reference in given:
            if not reference.name:
                errors.required(where.child(name, "name"))
        if not given:
            errors.invalid(where, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            errors.invalid(where, "", "may not have more than one field specified at a time")


_SCHEMES: Final = ("HTTP", "HTTPS")
_HEADER: Final = re.compile("[-A-Za-z0-9]+")
_HEADER_TEXT: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def validate_lifecycle(
    errors: ErrorList, path: FieldPath, lifecycle: core_v1.Lifecycle | None, grace: int | None
) -> None:
    """Require one handler at each end; ``grace`` are the seconds that the pod has to end."""
    if lifecycle is None:
        return
    for name, handler in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if handler is not None:
            _handler(errors, path.child(name), handler, grace)


def validate_probes(errors: ErrorList, path: FieldPath, container: core_v1.Container) -> None:
    """Validate probes: one handler each, and valid numbers."""
    for name, probe in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is None:
            continue
        where = path.child(name)
        _probe(errors, where, probe)
        seconds = probe.termination_grace_period_seconds
        # Only a readiness probe can get better and worse; the others act at the first success.
        if name != "readinessProbe" and probe.success_threshold != 1:
            errors.invalid(where.child("successThreshold"), probe.success_threshold, "must be 1")
        elif name == "readinessProbe" and seconds is not None:
            text = "must not be set for readinessProbes"
            errors.invalid(where.child("terminationGracePeriodSeconds"), seconds, text)


def _probe(errors: ErrorList, path: FieldPath, probe: core_v1.Probe) -> None:
    _handler(errors, path, probe, None)
    for name, value in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        if value < 0:
            errors.invalid(path.child(name), value, "must be greater than or equal to 0")
    seconds = probe.termination_grace_period_seconds
    if seconds is not None and seconds <= 0:
        errors.invalid(path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0")


def _handler(errors: ErrorList, path: FieldPath, handler: Any, grace: int | None) -> None:
    """Validate a probe or a handler of the lifecycle: it must have exactly one action."""
    found = False
    for attribute, name in (
        ("exec", "exec"),
        ("http_get", "httpGet"),
        ("tcp_socket", "tcpSocket"),
        ("grpc", "grpc"),
        ("sleep", "sleep"),
    ):
        action = getattr(handler, attribute, None)
        if action is None:
            continue
        # The first handler is validated, and each further one reported, as in Kubernetes.
        if found:
            errors.forbidden(path.child(name), "may not specify more than 1 handler type")
        else:
            _action(errors, path.child(name), action, grace)
        found = True
    if not found:
        errors.required(path, "must specify a handler type")


def _action(errors: ErrorList, path: FieldPath, action: Any, grace: int | None) -> None:
    if isinstance(action, core_v1.ExecAction):
        if not action.command:
            errors.required(path.child("command"))
    elif isinstance(action, core_v1.HTTPGetAction):
        _http(errors, path, action)
    elif isinstance(action, core_v1.SleepAction):
        if grace is not None and not 0 <= action.seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            errors.invalid(path, action.seconds, text)
    else:
        _probe_port(errors, path.child("port"), action.port)


def _http(errors: ErrorList, path: FieldPath, action: core_v1.HTTPGetAction) -> None:
    if not action.path:
        errors.required(path.child("path"))
    _probe_port(errors, path.child("port"), action.port)
    if action.scheme not in _SCHEMES:
        errors.not_supported(path.child("scheme"), action.scheme, _SCHEMES)
    for header in action.http_headers:
        if not _HEADER.fullmatch(header.name):
            errors.invalid(path.child("httpHeaders"), header.name, _HEADER_TEXT)


def _probe_port(errors: ErrorList, path: FieldPath, port: int | str) -> None:
    if isinstance(port, str):
        for problem in port_name(port):
            errors.invalid(path, port, problem)
    elif port not in _PORTS:
        errors.invalid(path, port, "must be between 1 and 65535, inclusive")


def port_name(value: str) -> list[str]:
    """Return the errors of the name of a port: at most 15 letters, digits and dashes, one letter at least."""
    problems = []
    if len(value) > 15:
        problems.append("must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems
