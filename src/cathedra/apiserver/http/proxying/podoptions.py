"""Which container a request for logs or streams means, and its options in the kubelet's words."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.field import ErrorList
from cathedra.api.status import bad_request, invalid
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.request import Call

__all__ = ["check_log_options", "check_started", "named_container", "stream_path", "stream_query"]

_PARAMETERS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


def stream_path(pod: Pod, call: Call, request: Request) -> str:
    """The kubelet's path of exec, attach and port-forward."""
    if call.subresource == "portforward":
        return f"/portForward/{pod.metadata.namespace}/{pod.metadata.name}"
    container = named_container(pod, request.parameter("container"))
    return f"/{call.subresource}/{pod.metadata.namespace}/{pod.metadata.name}/{container}"


def stream_query(request: Request) -> list[tuple[str, str]]:
    """The kubelet's own names for the parameters of exec and attach."""
    query: list[tuple[str, str]] = [("command", word) for word in request.query.get("command", ())]
    query += [(ours, "1") for name, ours in _PARAMETERS.items() if request.flag(name)]
    query += [("port", port) for port in request.query.get("ports", ())]
    return query


def _names_of(pod: Pod) -> list[str]:
    spec: Any = pod.spec
    return [c.name for c in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]


def named_container(pod: Pod, name: str) -> str:
    """The container of that name; for "" the only one, or the pod's default.

    Raises:
        StatusError: 400, there is none such, or it has to be named.
    """
    spec: Any = pod.spec
    if name:
        if name not in _names_of(pod):
            raise bad_request(f"container {name} is not valid for pod {pod.metadata.name}")
        return name
    if len(spec.containers) == 1:
        only: str = spec.containers[0].name
        return only
    default = pod.metadata.annotations.get("kubectl.kubernetes.io/default-container", "")
    if default in _names_of(pod):
        return default
    names = " ".join(c.name for c in spec.containers)
    message = f"a container name must be specified for pod {pod.metadata.name}, choose one of: [{names}]"
    if spec.init_containers:
        message += f" or one of the init containers: [{' '.join(c.name for c in spec.init_containers)}]"
    raise bad_request(message)


def check_log_options(request: Request, pod: Pod) -> None:
    """Refuse options of a log that make no sense.

    Raises:
        StatusError: 422, numbers are out of range.
    """
    errors = ErrorList()
    for name, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        value = request.number(name)
        if value is not None and value < least:
            comparison = "greater than or equal to 0" if least == 0 else "greater than 0"
            errors.invalid(name, value, f"must be {comparison}")
    if errors:
        raise invalid("", "PodLogOptions", pod.metadata.name, errors)


def check_started(pod: Pod, container: str, *, previous: bool) -> None:
    """Refuse the log of a container that has not run, or not run before.

    Raises:
        StatusError: 400, there is no log yet.
    """
    statuses = (
        *pod.status.container_statuses,
        *pod.status.init_container_statuses,
        *pod.status.ephemeral_container_statuses,
    )
    for status in statuses:
        if status.name != container:
            continue
        waiting = status.state.waiting if status.state else None
        terminated_before = status.last_state is not None and status.last_state.terminated is not None
        if previous and not terminated_before:
            raise bad_request(f'previous terminated container "{container}" in pod "{pod.metadata.name}" not found')
        if waiting is not None and not terminated_before:
            why = waiting.message or waiting.reason
            raise bad_request(f'container "{container}" in pod "{pod.metadata.name}" is waiting to start: {why}')
