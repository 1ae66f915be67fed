"""Plays recorded cases of the API through decode → default → prepare → validate, without a server.

What a server adds (names, uids, resource versions, admission, authorization) is left out; cases that need it are
skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.decoding import DecodeError, decode_json
from cathedra.api.definition import RequestContext, ResourceDefinition, VersionDefinition
from cathedra.api.definitions import all_definitions
from cathedra.api.field import ErrorList
from cathedra.api.gates import FeatureGates
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError, bad_request, invalid
from cathedra.api.struct import encode, replace

NOW = 1_700_000_000.0
RELEASE = "1.36"
ALL = (
    "DRADeviceTaintRules",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAResourcePoolStatus",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "GangScheduling",
)
OFF = (
    "DRAPartitionableDevices",
    "DRADeviceTaints",
    "DRADeviceTaintRules",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRAExtendedResource",
    "DRAResourceClaimDeviceStatus",
    "DRAPrioritizedList",
    "DRAResourceClaimGranularStatusAuthorization",
    "ResourceHealthStatus",
    "ResourceHealthStatusMessage",
)


def gates_of(name: str) -> FeatureGates:
    if name == "all":
        return FeatureGates.for_release(RELEASE, dict.fromkeys(ALL, True))
    if name == "off":
        return FeatureGates.for_release(RELEASE, dict.fromkeys(OFF, False))
    return FeatureGates.for_release(RELEASE)


class Skip(Exception):
    """The case needs more than strategies."""


@dataclass
class Outcome:
    id: str
    passed: bool
    why: str = ""


@dataclass
class World:
    gates: FeatureGates
    objects: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def definitions(
        self, gates: FeatureGates
    ) -> dict[tuple[str, str, str], tuple[ResourceDefinition[Any], VersionDefinition]]:
        return {
            (definition.group, version.name, definition.plural): (definition, version)
            for definition in all_definitions(gates)
            for version in definition.versions
        }


def cases(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


def play(case: dict[str, Any]) -> Outcome:
    world = World(gates_of(case["gates"]))
    for number, step in enumerate(case["steps"]):
        gates = gates_of(step["gates"]) if "gates" in step else world.gates
        code, answer = send(world, step, gates)
        problem = compare(step, code, answer, unordered=case.get("unordered", False))
        if problem:
            return Outcome(case["id"], False, f"step {number}: {problem}")
    return Outcome(case["id"], True)


def send(world: World, step: dict[str, Any], gates: FeatureGates) -> tuple[int, Any]:
    body = step.get("body")
    if (
        step["method"] not in ("POST", "PUT", "GET")
        or step.get("query")
        or step.get("content_type")
        or step.get("repeat")
    ):
        raise Skip
    if not isinstance(body, dict) and step["method"] != "GET":
        raise Skip
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    if "$(" in text or "$(" in step["path"]:
        raise Skip
    parts = step["path"].strip("/").split("/")
    if parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        group, version, rest = "", parts[1], parts[2:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    try:
        definition, served = world.definitions(gates)[group, version, plural]
    except KeyError:
        raise Skip from None
    if definition.type is Namespace:
        raise Skip
    gvk = GroupVersionKind(group, version, definition.kind)
    labels = {"resource.kubernetes.io/admin-access": "true"} if namespace == "vec-admin" else {}
    context = RequestContext(gates, NOW, gvk.api_version, labels, expressions=CHECKER(gates) if CHECKER else None)
    key = (group, plural, namespace)
    try:
        if step["method"] == "GET":
            if not name or subresource not in ("", "status"):
                raise Skip
            if (*key, name) not in world.objects:
                return 404, {}
            return 200, shown(world.objects[*key, name], served, gvk)
        decoded = served.to_hub(decode_json(served.type, gvk, text.encode(), gates.release).object)
        if step["method"] == "POST":
            if name:
                raise Skip
            obj = create(definition, decoded, context, namespace)
            world.objects[*key, obj.metadata.name] = obj
            return 201, shown(obj, served, gvk)
        old = world.objects.get((*key, name))
        if old is None:
            raise Skip
        obj = update(definition, subresource, decoded, old, context)
        world.objects[*key, name] = obj
        return 200, shown(obj, served, gvk)
    except DecodeError as error:
        failure = bad_request(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {error}')
        return 400, failure.to_json()
    except StatusError as error:
        return error.code, error.to_json()


def create(definition: ResourceDefinition[Any], obj: Any, context: RequestContext, namespace: str) -> Any:
    strategy = definition.strategy
    metadata = replace(obj.metadata, namespace=namespace, uid="u", generation=0)
    if not metadata.name:
        raise Skip
    obj = strategy.default(replace(obj, metadata=metadata), context)
    obj = strategy.prepare_create(obj, context)
    refuse(definition, obj, strategy.validate_create(obj, context))
    return stored(obj)


def update(definition: ResourceDefinition[Any], subresource: str, obj: Any, old: Any, context: RequestContext) -> Any:
    strategy = definition.subresources[subresource] if subresource else definition.strategy
    metadata = replace(
        obj.metadata,
        uid=old.metadata.uid,
        namespace=old.metadata.namespace,
        creation_timestamp=old.metadata.creation_timestamp,
        generation=old.metadata.generation,
    )
    obj = strategy.default(replace(obj, metadata=metadata), context)
    obj = strategy.prepare_update(obj, old, context)
    refuse(definition, obj, strategy.validate_update(obj, old, context))
    return stored(obj)


def stored(obj: Any) -> Any:
    return obj


def refuse(definition: ResourceDefinition[Any], obj: Any, errors: ErrorList) -> None:
    if errors:
        raise invalid(definition.group, definition.kind, obj.metadata.name, errors)


def shown(obj: Any, served: VersionDefinition, gvk: GroupVersionKind) -> Any:
    values = msgspec.json.decode(encode(served.from_hub(obj)))
    return {"kind": gvk.kind, "apiVersion": gvk.api_version, **values}


def compare(step: dict[str, Any], code: int, answer: Any, *, unordered: bool) -> str:
    if code == 404 == step["status"]:
        return ""
    if step["status"] == 404:
        raise Skip
    if code != step["status"]:
        wanted = (step.get("response") or {}).get("message")
        return f"status {code}, not {step['status']}: {answer.get('message', '')[:300]} | wanted {wanted}"
    wanted = step.get("response")
    if not isinstance(wanted, dict):
        return ""
    if wanted.get("kind") == "Status":
        causes = (wanted.get("details") or {}).get("causes", [])
        found = (answer.get("details") or {}).get("causes", [])
        if code == 400:
            return (
                "" if answer["message"] == wanted["message"] else f"{answer['message']!r}\n   not {wanted['message']!r}"
            )
        if case_sorted(causes) == case_sorted(found) and (causes == found or unordered):
            return ""
        lines = [f"   - {c}" for c in causes if c not in found] + [f"   + {c}" for c in found if c not in causes]
        return "causes:\n" + "\n".join(lines or ["   other order", str(causes)[:500], str(found)[:500]])
    if "reason" in wanted and "causes" in wanted:
        return ""
    if "kind" in wanted and len(wanted) == 1:
        return ""
    for part in ("spec", "status", "data"):
        a, b = dated(answer.get(part)), dated(wanted.get(part))
        if a != b:
            return f"{part}:\n   {json.dumps(a)[:700]}\n   not\n   {json.dumps(b)[:700]}"
    if answer["metadata"].get("generation") != wanted["metadata"].get("generation"):
        return f"generation {answer['metadata'].get('generation')} not {wanted['metadata'].get('generation')}"
    return ""


def case_sorted(causes: list[Any]) -> list[str]:
    return sorted(json.dumps(cause, sort_keys=True) for cause in causes)


def dated(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "<time>" if key in TIMES else dated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [dated(item) for item in value]
    return value


TIMES = frozenset(("timeAdded", "creationTimestamp"))
CHECKER: Any = None
