"""Rules of what a node does to containers: probes, and handlers of their lifecycle."""

from __future__ import annotations

import re
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath

__all__ = ["port_name", "validate_lifecycle", "validate_probes"]

_PORTS: Final = range(1, 65536)
_SCHEMES: Final = ("HTTP", "HTTPS")
_HEADER: Final = re.compile("[-A-Za-z0-9]+")
_HEADER_TEXT: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def validate_lifecycle(
    errors: ErrorList, path: FieldPath, lifecycle: core_v1.Lifecycle | None, grace: int | None
) -> None:
    """One handler at each end; ``grace`` are the seconds that the pod has to end."""
    if lifecycle is None:
        return
    for name, handler in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if handler is not None:
            _handler(errors, path.child(name), handler, grace)


def validate_probes(errors: ErrorList, path: FieldPath, container: core_v1.Container) -> None:
    """Probes ask in one way, and count in numbers that make sense."""
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
    """A probe or a handler of the lifecycle: exactly one way."""
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
        _port(errors, path.child("port"), action.port)


def _http(errors: ErrorList, path: FieldPath, action: core_v1.HTTPGetAction) -> None:
    if not action.path:
        errors.required(path.child("path"))
    _port(errors, path.child("port"), action.port)
    if action.scheme not in _SCHEMES:
        errors.not_supported(path.child("scheme"), action.scheme, _SCHEMES)
    for header in action.http_headers:
        if not _HEADER.fullmatch(header.name):
            errors.invalid(path.child("httpHeaders"), header.name, _HEADER_TEXT)


def _port(errors: ErrorList, path: FieldPath, port: int | str) -> None:
    if isinstance(port, str):
        for problem in port_name(port):
            errors.invalid(path, port, problem)
    elif port not in _PORTS:
        errors.invalid(path, port, "must be between 1 and 65535, inclusive")


def port_name(value: str) -> list[str]:
    """What is wrong with the name of a port: at most 15 letters, digits and dashes, one letter at least."""
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
