"""Plays a scenario on a cluster, and does the kubelet's part in it (the vectors' README, section «Steps»).

A player knows a cluster by its API alone, so the same one plays in process and on any Kubernetes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Protocol

from tests.conformance.scenario_snapshot import RESOURCES, Identities, section_of

__all__ = ["Cluster", "Player"]

Json = dict[str, Any]

_PATCH_TYPES: Final = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_JSON: Final = "application/json"
_MERGE: Final = _PATCH_TYPES["merge"]
_SILENT_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 12.0
_ENDED: Final = ("Succeeded", "Failed")


class Cluster(Protocol):
    """A cluster on which scenarios are played."""

    step: float
    """Seconds between two checks if a cluster is at rest."""

    async def request(self, method: str, path: str, body: Any = None, content_type: str = _JSON) -> tuple[int, Any]:
        """Status code and value of the answer."""

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def now(self) -> str:
        """The time, as RFC 3339 with whole seconds."""

    def later(self, seconds: int) -> str:
        """The time ``seconds`` from now."""

    def state(self) -> object:
        """Something that is equal as long as nothing has changed; a new object each time if that is not known."""

    def is_scheduling(self) -> bool:
        """True if the scheduler is known to have pods in its active or back-off queue."""


class Player:
    """One scenario on one cluster."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._identities = Identities(namespace)
        self._namespace = namespace
        self._namespaces = {namespace}
        self._state: object = None
        self._seen: dict[str, str] = {}
        self._changed = False

    async def play(self, steps: Iterable[Json]) -> str:
        """The first difference, or "" if every step is answered as recorded."""
        for number, step in enumerate(steps):
            answer = await self._step(self._filled(step))
            wanted = step.get("answer")
            if answer != wanted:
                return f"step {number} ({_title(step)}):\n{difference(wanted, answer)}"
        return ""

    async def _step(self, step: Json) -> Any:
        name = f"_do_{step['do'].replace('-', '_')}"
        answer = await getattr(self, name)(step)
        await self._observe()
        return answer

    # --- objects

    async def _do_create(self, step: Json) -> Any:
        obj = step["object"]
        resource = RESOURCES[obj["kind"]]
        obj = {"apiVersion": resource.version, **obj}
        namespace = obj["metadata"].get("namespace", self._namespace)
        code, value = await self._cluster.request("POST", resource.path(namespace), obj)
        if code < 300:
            self._identities.see(obj["kind"], value)
            if obj["kind"] == "Namespace":
                self._namespaces.add(value["metadata"]["name"])
                await self._wait_for_account(value["metadata"]["name"])
        return self._refusal(code, value)

    async def _wait_for_account(self, namespace: str) -> None:
        path = RESOURCES["ServiceAccount"].path(namespace, "default")
        while (await self._cluster.request("GET", path))[0] != 200:
            await self._cluster.sleep(self._cluster.step)

    async def _do_patch(self, step: Json) -> Any:
        path = self._path(step, step.get("sub", ""))
        content_type = _PATCH_TYPES[step.get("type", "merge")]
        return self._refusal(*await self._cluster.request("PATCH", path, step["patch"], content_type))

    async def _do_apply(self, step: Json) -> Any:
        obj = step["object"]
        resource = RESOURCES[obj["kind"]]
        namespace = obj["metadata"].get("namespace", self._namespace)
        path = resource.path(namespace, obj["metadata"]["name"])
        query = f"?fieldManager={step.get('manager', 'player')}&force=true"
        body = {"apiVersion": resource.version, **obj}
        return self._refusal(*await self._cluster.request("PATCH", path + query, body, "application/apply-patch+yaml"))

    async def _do_delete(self, step: Json) -> Any:
        options: Json = {}
        if "grace" in step:
            options["gracePeriodSeconds"] = step["grace"]
        if "propagation" in step:
            options["propagationPolicy"] = step["propagation"]
        return self._refusal(*await self._cluster.request("DELETE", self._path(step), options or None))

    async def _do_evict(self, step: Json) -> Any:
        return await self._evict(step["name"], step.get("namespace", self._namespace))

    async def _do_bind(self, step: Json) -> Any:
        namespace = step.get("namespace", self._namespace)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": step["name"]},
            "target": {"kind": "Node", "name": step["node"]},
        }
        path = RESOURCES["Pod"].path(namespace, step["name"], "binding")
        return self._refusal(*await self._cluster.request("POST", path, body))

    async def _do_delete_matching(self, step: Json) -> Any:
        pods = [pod for pod in await self._matching(step) if "deletionTimestamp" not in pod["metadata"]]
        options = {"gracePeriodSeconds": step["grace"]} if "grace" in step else None
        for pod in pods[: step.get("count")]:
            await self._cluster.request("DELETE", _pod_path(pod), options)
        return {"pods": len(pods[: step.get("count")])}

    async def _do_label_matching(self, step: Json) -> Any:
        pods = (await self._matching(step))[: step.get("count")]
        for pod in pods:
            await self._cluster.request("PATCH", _pod_path(pod), {"metadata": {"labels": step["labels"]}}, _MERGE)
        return {"pods": len(pods)}

    async def _do_evict_matching(self, step: Json) -> Any:
        pods = [pod for pod in await self._matching(step) if "deletionTimestamp" not in pod["metadata"]]
        return [
            await self._evict(pod["metadata"]["name"], pod["metadata"]["namespace"])
            for pod in pods[: step.get("count")]
        ]

    async def _do_delete_claims(self, step: Json) -> Any:
        claims = await self._list("ResourceClaim", step.get("namespace", self._namespace))
        chosen = [claim for claim in claims if re.fullmatch(step["match"], claim["metadata"]["name"])]
        for claim in chosen:
            path = RESOURCES["ResourceClaim"].path(claim["metadata"]["namespace"], claim["metadata"]["name"])
            await self._cluster.request("DELETE", path)
        return {"claims": len(chosen)}

    # --- the kubelet's part

    async def _do_pod_running(self, step: Json) -> Any:
        def is_meant(pod: Json) -> bool:
            phase = pod["status"]["phase"]
            return "deletionTimestamp" not in pod["metadata"] and (phase != "Running" or bool(step.get("again")))

        return await self._report(step, "Running", is_meant)

    async def _do_pod_succeeded(self, step: Json) -> Any:
        return await self._report(step, "Succeeded", lambda _: True)

    async def _do_pod_failed(self, step: Json) -> Any:
        return await self._report(step, "Failed", lambda _: True)

    async def _do_finish_deletion(self, step: Json) -> Any:
        pods = [pod for pod in await self._matching(step) if "deletionTimestamp" in pod["metadata"]]
        for pod in pods:
            if "phase" in step:
                report = self._status(pod, step["phase"], {"exit": 137, **step})
                await self._cluster.request("PATCH", _pod_path(pod, "status"), {"status": report}, _MERGE)
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            await self._cluster.request("DELETE", _pod_path(pod), options)
        return {"pods": len(pods)}

    async def _report(self, step: Json, phase: str, is_meant: Any) -> Json:
        pods = [
            pod
            for pod in await self._matching(step)
            if pod["spec"].get("nodeName") and pod["status"]["phase"] not in _ENDED and is_meant(pod)
        ][: step.get("count")]
        for pod in pods:
            report = self._status(pod, phase, step)
            await self._cluster.request("PATCH", _pod_path(pod, "status"), {"status": report}, _MERGE)
        return {"pods": len(pods)}

    def _status(self, pod: Json, phase: str, step: Json) -> Json:
        now, running = self._cluster.now(), phase == "Running"
        ready = running and not step.get("unready")
        known = {condition["type"]: condition for condition in pod["status"].get("conditions") or ()}
        why = {} if running else {"reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
        made = {
            "Initialized": {"status": "True"},
            "PodReadyToStartContainers": {"status": "True" if running else "False", **why},
            "ContainersReady": {"status": "True" if ready else "False", **why},
            "Ready": {"status": "True" if ready else "False", **why},
        }
        for kind, said in made.items():
            known[kind] = {"type": kind, **said, "lastTransitionTime": now}
        for condition in step.get("conditions") or ():
            known[condition["type"]] = {"lastTransitionTime": now, **condition}
        if running:
            state: Json = {"running": {"startedAt": now}}
        else:
            code = 0 if phase == "Succeeded" else step.get("exit", 1)
            reason = "Completed" if phase == "Succeeded" else "Error"
            state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}}
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": step.get("restarts", 0),
                "started": running,
                "state": state,
            }
            for container in pod["spec"]["containers"]
        ]
        report = {
            "phase": phase,
            "conditions": list(known.values()),
            "containerStatuses": containers,
            "podIP": "10.9.0.9",
        }
        if not pod["status"].get("startTime"):
            report["startTime"] = now
        if "reason" in step:
            report["reason"] = step["reason"]
        return report

    async def _matching(self, step: Json) -> list[Json]:
        """Pods that match, in order of their names; the caller takes ``count`` of those that it can use."""
        pods = await self._list("Pod", step.get("namespace", self._namespace))
        index = step.get("index")
        label = "batch.kubernetes.io/job-completion-index"
        return sorted(
            (
                pod
                for pod in pods
                if re.fullmatch(step["match"], pod["metadata"]["name"])
                and (index is None or (pod["metadata"].get("labels") or {}).get(label) == str(index))
            ),
            key=lambda pod: str(pod["metadata"]["name"]),
        )

    # --- time

    async def _do_advance(self, step: Json) -> None:
        await self._pass(step["seconds"])

    async def _pass(self, seconds: float) -> None:
        """Let time pass and look on, so that no object comes and goes unseen."""
        left = seconds
        while left > 0:
            await self._cluster.sleep(min(left, 1.0))
            await self._observe()
            left -= 1.0

    async def _do_settle(self, step: Json) -> Any:
        silent = bool(step.get("silent"))
        quiet = max(_SILENT_SECONDS if silent else _QUIET_SECONDS, step.get("quiet", 0.0))
        waited = calm = 0.0
        while calm < quiet and waited < step.get("longest", _LONGEST_SECONDS):
            await self._cluster.sleep(self._cluster.step)
            waited += self._cluster.step
            changed = await self._observe()
            calm = 0.0 if changed or self._cluster.is_scheduling() else calm + self._cluster.step
        snapshot = await self._snapshot()
        return None if silent else snapshot

    async def _observe(self) -> bool:
        """Learn which objects there are; whether anything has changed since the last time."""
        state = self._cluster.state()
        if state == self._state:
            return False
        self._state = state
        seen: dict[str, str] = {}
        for kind in RESOURCES:
            for obj in await self._all(kind):
                self._identities.see(kind, obj)
                seen[obj["metadata"]["uid"]] = obj["metadata"]["resourceVersion"]
        changed = seen != self._seen
        self._seen = seen
        return changed

    async def _snapshot(self) -> Json:
        found = {kind: await self._all(kind) for kind, resource in RESOURCES.items() if resource.section}
        for kind, objects in found.items():
            for obj in objects:
                self._identities.see(kind, obj)
        self._identities.number_hashes(found["ReplicaSet"], found["ControllerRevision"])
        sections = {
            RESOURCES[kind].section: section_of(RESOURCES[kind], objects, self._identities)
            for kind, objects in found.items()
        }
        told = {json.dumps(event, sort_keys=True): event for event in sections["events"]}
        sections["events"] = [event for event in told.values() if self._identities.is_news(event)]
        return {section: items for section, items in sections.items() if items}

    # --- requests

    async def _all(self, kind: str) -> list[Json]:
        """The objects of a kind that belong to the scenario."""
        resource = RESOURCES[kind]
        if not resource.namespaced:
            return [obj for obj in await self._list(kind, "") if self._is_ours(kind, obj)]
        namespaces = sorted(self._namespaces | ({"default"} if kind == "Event" else set()))
        return [obj for namespace in namespaces for obj in await self._list(kind, namespace)]

    def _is_ours(self, kind: str, obj: Json) -> bool:
        name = obj["metadata"]["name"]
        if kind == "Namespace":
            return name in self._namespaces
        return kind != "PriorityClass" or not name.startswith("system-")

    async def _list(self, kind: str, namespace: str) -> list[Json]:
        code, value = await self._cluster.request("GET", RESOURCES[kind].path(namespace))
        return list(value["items"] or ()) if code == 200 else []

    async def _evict(self, name: str, namespace: str) -> Any:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        path = RESOURCES["Pod"].path(namespace, name, "eviction")
        return self._refusal(*await self._cluster.request("POST", path, body))

    def _path(self, step: Json, sub: str = "") -> str:
        return RESOURCES[step["kind"]].path(step.get("namespace", self._namespace), step["name"], sub)

    def _refusal(self, code: int, value: Any) -> Any:
        if code < 300:
            return None
        told = value if isinstance(value, dict) else {}
        refusal = {"code": code, "reason": told.get("reason", ""), "message": told.get("message", str(value))}
        return self._identities.normalized(refusal)

    # --- placeholders of steps

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\$\(([^)]*)\)", lambda match: self._placeholder(match[1]), value)
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if isinstance(value, dict):
            return {self._filled(key): self._filled(item) for key, item in value.items() if key != "answer"}
        return value

    def _placeholder(self, text: str) -> str:
        if text == "ns":
            return self._namespace
        if text.startswith("uid:"):
            kind, _, name = text.removeprefix("uid:").partition("/")
            return self._identities.uid_of(kind, name)
        if text.startswith("now"):
            return self._cluster.later(int(text.removeprefix("now") or 0))
        return f"$({text})"


def _pod_path(pod: Json, sub: str = "") -> str:
    return RESOURCES["Pod"].path(pod["metadata"]["namespace"], pod["metadata"]["name"], sub)


def _title(step: Json) -> str:
    named = step.get("object", {}).get("metadata", {}).get("name") or step.get("name") or step.get("match") or ""
    kind = step.get("object", {}).get("kind") or step.get("kind") or ""
    return " ".join(part for part in (step["do"], kind, named) if part)


def difference(wanted: Any, found: Any) -> str:
    """Return the missing lines (-) and the unexpected ones (+), section by section."""
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return f"- {_line(wanted)}\n+ {_line(found)}"
    lines: list[str] = []
    for section in sorted({*wanted, *found}):
        one, other = wanted.get(section), found.get(section)
        if one == other:
            continue
        if not isinstance(one, list | None) or not isinstance(other, list | None):
            lines += [f"{section}:", f"- {_line(one)}", f"+ {_line(other)}"]
            continue
        missing = [item for item in one or () if item not in (other or ())]
        more = [item for item in other or () if item not in (one or ())]
        lines += [f"{section}:", *(f"- {_line(item)}" for item in missing), *(f"+ {_line(item)}" for item in more)]
        if not missing and not more:
            lines.append(f"{len(other or ())} elements, expected {len(one or ())}")
    return "\n".join(lines)


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
