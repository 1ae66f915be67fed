"""A cluster of dictionaries: enough of an API for the player of scenarios, with every request written down."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.conformance.scenario_snapshot import RESOURCES

Json = dict[str, Any]


class FakeCluster:
    """Objects by path. Nothing acts on its own; ``on_sleep`` is called whenever time passes."""

    step = 0.5

    def __init__(self, on_sleep: Callable[[FakeCluster], None] = lambda _: None) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[tuple[str, str, Any, str]] = []
        self.unserved: set[str] = set()
        self.refusals: dict[tuple[str, str], tuple[int, Json]] = {}
        """Method and path → the answer to be given instead."""
        self.slept = 0.0
        self.scheduling = False
        self.on_sleep = on_sleep
        self._version = 0

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        path = path.partition("?")[0]
        self.requests.append((method, path, body, content_type))
        if (method, path) in self.refusals:
            return self.refusals[method, path]
        if method == "GET":
            return self._read(path)
        if method == "POST" and path.rpartition("/")[2] in {resource.plural for resource in RESOURCES.values()}:
            return 201, self.put(f"{path}/{body['metadata']['name']}", body)
        if method == "PATCH" and content_type == "application/merge-patch+json":
            target = path.removesuffix("/status")
            return 200, self.put(target, merged(self.objects[target], body))
        if method == "DELETE":
            return (200, self.objects.pop(path)) if path in self.objects else (404, {"reason": "NotFound"})
        return 200, {}

    def put(self, path: str, obj: Json) -> Json:
        """Write an object at a path, with uid and resource version as a server gives them."""
        self._version += 1
        made = copy.deepcopy(obj)
        made.setdefault("status", {})
        metadata = made["metadata"]
        metadata.setdefault("uid", f"00000000-0000-4000-8000-{self._version:012d}")
        metadata["resourceVersion"] = str(self._version)
        if "/namespaces/" in path:
            metadata["namespace"] = path.partition("/namespaces/")[2].partition("/")[0]
        self.objects[path] = made
        if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
            self.put(f"{path}/serviceaccounts/default", {"metadata": {"name": "default"}})
        return made

    def pod(self, name: str, namespace: str = "ns", node: str = "n1", **metadata: Any) -> Json:
        """Write a pod on a node."""
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "i"}]}
        obj = {"metadata": {"name": name, **metadata}, "spec": spec, "status": {"phase": "Pending"}}
        return self.put(f"/api/v1/namespaces/{namespace}/pods/{name}", obj)

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.on_sleep(self)

    def now(self) -> str:
        return self.later(0)

    def later(self, seconds: int) -> str:
        return f"2026-01-01T00:00:{seconds:02d}Z"

    def state(self) -> object:
        return object()

    def is_scheduling(self) -> bool:
        return self.scheduling

    def _read(self, path: str) -> tuple[int, Any]:
        if path.rpartition("/")[2] in self.unserved:
            return 404, {"reason": "NotFound"}
        if path in self.objects:
            return 200, self.objects[path]
        plural = path.rpartition("/")[2]
        resource = next((one for one in RESOURCES.values() if one.plural == plural), None)
        if resource is None:
            return 404, {"reason": "NotFound"}
        everywhere = path == resource.path()
        items = [
            obj
            for at, obj in self.objects.items()
            if (at.startswith(resource.prefix) if everywhere else at.startswith(f"{path}/"))
            and at.split("/")[-2] == plural
        ]
        return 200, {"items": items or None}


def merged(value: Any, patch: Any) -> Any:
    """A merge patch, applied."""
    if not isinstance(value, dict) or not isinstance(patch, dict):
        return patch
    kept = {name: item for name, item in value.items() if name not in patch or patch[name] is not None}
    return kept | {name: merged(value.get(name), item) for name, item in patch.items() if item is not None}
