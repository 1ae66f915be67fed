"""``metrics.k8s.io``: the measured usage of nodes and pods, as a metrics server has it from the agents of nodes.

``kubectl top`` reads it. Nothing is stored: when a user requests it, all agents are called at once, and their
answers are used for some seconds. A node that does not answer has no figures, and neither have its pods.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Format, Quantity
from cathedra.api.scheme import GroupResource
from cathedra.api.status import not_found
from cathedra.api.struct import Time
from cathedra.apiserver.http.proxying.proxy import Proxy
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.request import Call
from cathedra.apiserver.routes import METRICS_GROUP, NODES
from cathedra.apiserver.verbs.context import ServerContext

_API_VERSION: Final = f"{METRICS_GROUP}/v1beta1"
_GOOD_SECONDS: Final = 5.0
"""Seconds for which a node's figures are used."""
_AT_ONCE: Final = 32
"""Limit of nodes that are called at the same time."""


class _Summary(msgspec.Struct, frozen=True):
    """The figures of a node, and their time in monotonic seconds and as a date."""

    at: float
    time: str
    node: Mapping[str, Any]
    pods: Mapping[str, Mapping[str, Any]]
    """The figures of its pods, by the UID of the pod."""


class Measurements:
    """Reads the usage of nodes through ``proxy``, and caches it."""

    def __init__(self, server: ServerContext, proxy: Proxy) -> None:
        self._server = server
        self._proxy = proxy
        self._known: dict[str, _Summary] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def answer(self, call: Call, label_selector: str, field_selector: str) -> dict[str, Any]:
        """Return the figures of the object that a call names, or of all objects that it selects.

        Raises:
            StatusError: 400, a selector does not parse; 404, there are no figures of that object.
        """
        name = f"metadata.name={call.name}" if call.name else ""
        fields = ",".join(part for part in (name, field_selector) if part)
        selection = Selection.parse(call.definition, call.namespace, label_selector, fields)
        objects = [entry.object for entry in self._server.table(call).select(selection)]
        if call.resource == NODES:
            items = list(_nodes(objects, await self._summaries({node.metadata.name for node in objects})))
        else:
            hosts = {pod.spec.node_name for pod in objects if pod.spec is not None and pod.spec.node_name}
            items = list(_pods(objects, await self._summaries(hosts)))
        kind = "NodeMetrics" if call.resource == NODES else "PodMetrics"
        if not call.name:
            return {"kind": f"{kind}List", "apiVersion": _API_VERSION, "metadata": {}, "items": items}
        if not items:
            named = f"{call.namespace}/{call.name}" if call.namespace else call.name
            raise not_found(GroupResource(METRICS_GROUP, kind.lower()), named)
        return {"kind": kind, "apiVersion": _API_VERSION} | items[0]

    async def _summaries(self, names: Iterable[str]) -> dict[str, _Summary]:
        # In a fixed order, so that the answers can be paired with their names.
        names = sorted(names)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._summary(name)) for name in names]
        found = zip(names, (task.result() for task in asked), strict=True)
        return {name: summary for name, summary in found if summary is not None}

    async def _summary(self, name: str) -> _Summary | None:
        async with self._turns:
            now = self._server.clock.monotonic()
            # Read after the wait: a request that was served meanwhile may have fetched the figures of this node.
            known = self._known.get(name)
            if known is not None and now - known.at < _GOOD_SECONDS:
                return known
            told = await self._proxy.node_summary(name)
            # Also when the node does not answer: old figures would be served as new ones until the next success.
            self._known.pop(name, None)
            if not isinstance(told, dict):
                return None
            with contextlib.suppress(KeyError, TypeError, AttributeError):  # the answer of a node may be anything
                pods = {pod["podRef"]["uid"]: pod for pod in told.get("pods") or ()}
                time = str(Time(self._server.clock.now()))
                summary = _Summary(now, time, told["node"], pods)
                self._known[name] = summary
                return summary
            return None


def _nodes(objects: Iterable[Any], summaries: Mapping[str, _Summary]) -> Iterator[dict[str, Any]]:
    for node in objects:
        summary = summaries.get(node.metadata.name)
        usage = _usage(summary.node) if summary is not None else None
        if summary is not None and usage is not None:
            yield _item(node, summary) | {"usage": usage}


def _pods(objects: Iterable[Pod], summaries: Mapping[str, _Summary]) -> Iterator[dict[str, Any]]:
    for pod in objects:
        summary = summaries.get(pod.spec.node_name) if pod.spec is not None else None
        told = summary.pods.get(pod.metadata.uid) if summary is not None else None
        if summary is None or told is None:
            continue
        containers = [
            {"name": one.get("name") or "", "usage": usage}
            for one in _containers(told)
            if (usage := _usage(one)) is not None
        ]
        yield _item(pod, summary) | {"containers": containers}


def _containers(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the containers of a pod; a kubelet writes null for a pod without any."""
    found = told.get("containers")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _item(obj: Any, summary: _Summary) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": obj.metadata.name}
    if obj.metadata.namespace:
        metadata["namespace"] = obj.metadata.namespace
    metadata["creationTimestamp"] = summary.time
    if obj.metadata.labels:
        metadata["labels"] = dict(obj.metadata.labels)
    return {"metadata": metadata, "timestamp": summary.time, "window": f"{_GOOD_SECONDS:g}s"}


def _usage(told: Mapping[str, Any]) -> dict[str, str] | None:
    """Return CPU and memory as quantities; None if either is missing or not a number."""
    try:
        rate, memory = int(told["cpu"]["usageNanoCores"]), int(told["memory"]["workingSetBytes"])
    except (KeyError, TypeError, ValueError):
        return None
    # Rounded down to KiB: metrics-server reports in Ki, and kubectl top would otherwise show plain bytes.
    held = Quantity.of_value(memory // 1024 * 1024, Format.BINARY_SI)
    return {"cpu": str(Quantity.of_nanos(rate)), "memory": str(held)}
