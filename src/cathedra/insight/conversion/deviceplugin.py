"""Conversion from device plugins to claims: pods that request extended resources are rewritten.

Every step changes the text and the decoded values; at the end both must be equal. Classes and templates are appended,
with comments on what is not known.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from cathedra.api.decoding import write_yaml
from cathedra.api.formats import extended_resource_name
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.quantity import Quantity, QuantityError
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.conversion.edits import (
    TextEdit,
    Unconvertible,
    add_entry,
    changed_values,
    documents_of,
    edited,
    json_of,
    json_written,
    parts_in,
    remove_entry,
)
from cathedra.insight.manifests import POD_SPECS, YAMLNode, find_node
from cathedra.profiles import load_profile, profile_names

_STEP: Final = re.compile(r"\.?(\w[^.\[\]]*)|\[(\d+)\]")
_GROUPS: Final = frozenset(("", "apps", "batch"))


class _Added(NamedTuple):
    """An object that is new, and the comments in front of it."""

    value: JSONObject
    comments: tuple[str, ...]


class DevicePluginChange:
    """Rewrites texts, and remembers what was changed in the last one; each class is made once for all of them."""

    def __init__(self, resources: Sequence[str] = ()) -> None:
        self._resources = tuple(resources)
        self._classes: set[str] = set()
        self.changes: list[str] = []
        self.notes: list[str] = []
        self._steps: list[tuple[ConversionStep, ...]] = []
        """Of each object, in order."""
        self._added: list[_Added] = []

    def rewritten(self, name: str, text: str) -> str:
        """Return the text with claims in place of extended resources.

        Raises:
            InvalidInput: it is no YAML.
            Unconvertible: it cannot be changed without changing more.
        """
        self.changes, self.notes, self._steps, self._added = [], [], [], []
        plain = json_of(name, text)
        if plain is not None:
            return self._json(plain, text)
        documents = documents_of(name, text)
        expected = [self._changed(one.value) for one in documents]
        for number, steps in enumerate(self._steps):
            for step in steps:
                # Parsed again after each step, because an edit moves all positions behind it.
                part = next(islice((one for each in documents_of(name, text) for one in parts_in(each)), number, None))
                text = edited(text, [_edit(text, part.node, step)])
        text = _with_documents(text, self._added)
        if [one.value for one in documents_of(name, text)] != [*expected, *(one.value for one in self._added)]:
            raise Unconvertible("anchors or unusual indentation")
        return text

    def _json(self, plain: Any, text: str) -> str:
        made = self._changed(plain)
        if not self._added:
            return text
        new = [one.value for one in self._added]
        # JSON has no documents: further objects need a List around them.
        is_list = isinstance(made, dict) and made.get("kind") == "List"
        items = [*made["items"], *new] if is_list else [made, *new]
        return json_written({**(made if is_list else {"apiVersion": "v1", "kind": "List"}), "items": items}, text)

    def _changed(self, value: Any) -> Any:
        """Return the values of a document with claims; the steps of the change are recorded object by object."""

        def change(one: Mapping[str, Any], gvk: GroupVersionKind) -> Any:
            plan = self._plan(one, gvk)
            self._steps.append(plan.steps if plan is not None else ())
            return one if plan is None else _stepped(one, plan.steps)

        return changed_values(value, change)

    def _plan(self, value: Mapping[str, Any], gvk: GroupVersionKind) -> PodPlan | None:
        """Return the plan for one object; the objects that it needs are recorded."""
        path = POD_SPECS.get(gvk.kind)
        metadata = value.get("metadata")
        if not isinstance(metadata, Mapping):
            return None
        if path is None or gvk.group not in _GROUPS:
            self._note_unread(value, gvk, metadata)
            return None
        pod: Any = value
        for name in path.split("."):
            pod = pod.get(name) if isinstance(pod, Mapping) else None
        own = str(metadata.get("name") or metadata.get("generateName") or "pod").strip("-")
        template_name = f"{own}-devices"
        plan = pod_plan(pod, path, template_name, self._resources) if isinstance(pod, Mapping) else None
        if plan is None:
            return None
        where = f"{gvk.kind}/{own}"
        resources = list(dict.fromkeys(one.resource for one in plan.requests))
        asked = ", ".join(f"{one.number} × {one.resource}" for one in plan.requests)
        self.changes.append(f"{where}: {asked} → template {template_name}")
        notes = (
            *(f"{where}: {note}" for note in plan.notes),
            f"{where}: model, memory and sharing of the devices are not stated; "
            "a request can state them with selectors",
        )
        self.notes += notes
        self._added += [one for resource in resources for one in self._class(resource)]
        made = template(template_name, str(metadata.get("namespace") or ""), plan.requests)
        self._added.append(_Added(made, notes))
        return plan

    def _note_unread(self, value: Mapping[str, Any], gvk: GroupVersionKind, metadata: Mapping[str, Any]) -> None:
        """Note extended resources in an object whose pods are not known, so that they are not lost silently."""
        found = [one for one in _mentioned(value) if not self._resources or one in self._resources]
        if found:
            named = metadata.get("name") or metadata.get("generateName") or "without a name"
            self.notes.append(
                f"{gvk.kind}/{named}: requests {', '.join(found)} and is unchanged: where the kind {gvk.kind} of "
                f"{gvk.group}/{gvk.version} has its pods is not known"
            )

    def _class(self, resource: str) -> Iterator[_Added]:
        name = class_name_of(resource)
        if name in self._classes:
            return
        # One class per resource for all texts of a call, or applying the files would conflict.
        self._classes.add(name)
        made, notes = device_class(resource)
        self.notes += notes
        hint = f"with extendedResourceName: {resource} in its spec pods may go on to ask as before (1.34 and later)"
        # A class that stands for one form of partition alone would need a selector of its own.
        yield _Added(made, notes if _MIG.fullmatch(resource) else (*notes, hint))


def _edit(text: str, root: YAMLNode, step: ConversionStep) -> TextEdit:
    node, _, found = find_node(root, step.path)
    # An edit below an anchor would change each place that uses it.
    if not found or node.shared:
        raise Unconvertible(f"{step.path} is shared by an anchor")
    if step.action == REMOVE:
        return remove_entry(text, node, step.key)
    flow = json.dumps(step.value)
    if step.action == APPEND:
        return _appended(text, node, step, flow)
    indent = "  " if _indents(text, root) else ""
    lines = [f"{indent}{line}" for line in write_yaml(step.value, sort_keys=False).decode().splitlines()]
    return add_entry(text, node, step.key, lines, flow)


def _appended(text: str, node: YAMLNode, step: ConversionStep, flow: str) -> TextEdit:
    """Items at the end of a list that is there."""
    items = node.get(step.key)
    if items is None or items.shared:
        raise Unconvertible(f"{step.path}.{step.key} is shared by an anchor")
    if items.is_flow:
        end = items.items[-1].end if items.items else items.start + 1
        return TextEdit(end, end, f"{', ' if items.items else ''}{flow[1:-1]}")
    begin = items.items[-1].start
    line = text.rfind("\n", 0, begin) + 1
    margin = " " * (text.index("-", line) - line)
    newline = "\r\n" if "\r\n" in text else "\n"
    at = text.find("\n", items.end)
    lines = [f"{margin}{one}" for one in write_yaml(step.value, sort_keys=False).decode().splitlines()]
    if at < 0:
        return TextEdit(len(text), len(text), newline + newline.join(lines))
    return TextEdit(at + 1, at + 1, newline.join([*lines, ""]))


def _indents(text: str, root: YAMLNode) -> bool:
    """Return True if lists of the object are indented below their keys."""
    pending = [root]
    while pending:
        node = pending.pop()
        for key, value in node.entries:
            if value.kind == "sequence" and not value.is_flow and value.items:
                line = text.rfind("\n", 0, value.start) + 1
                return text.find("-", line) - line > key.start - text.rfind("\n", 0, key.start) - 1
            pending.append(value)
        pending.extend(node.items)
    return False


def _stepped(value: Mapping[str, Any], steps: Sequence[ConversionStep]) -> JSONObject:
    # Decoded values share parts behind aliases; a change in place would show in other objects.
    made: JSONObject = copy.deepcopy({**value})
    for step in steps:
        at: Any = made
        for name, index in _STEP.findall(step.path):
            at = at[name] if name else at[int(index)]
        if step.action == REMOVE:
            del at[step.key]
        elif step.action == APPEND:
            at[step.key] = [*at[step.key], *step.value]
        else:
            at[step.key] = step.value
    return made


def _with_documents(text: str, added: Sequence[_Added]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    pieces = [text if text.endswith("\n") or not added else text + newline]
    for one in added:
        comments = "".join(f"# {line}\n" for line in one.comments)
        document = f"---\n{comments}{write_yaml(one.value, sort_keys=False).decode()}"
        pieces.append(document.replace("\n", newline))
    return "".join(pieces)


# --- extended resources


CLAIM: Final = "devices"
"""Name of the claim in a pod."""
ADD, APPEND, REMOVE = "add", "append", "remove"
_KNOWN: Final = {
    "nvidia.com/gpu": "gpu.nvidia.com",
    "nvidia.com/gpu.shared": "gpu.nvidia.com",
    "amd.com/gpu": "gpu.amd.com",
    "intel.com/gpu": "gpu.intel.com",
    "gpu.intel.com/i915": "gpu.intel.com",
    "gpu.intel.com/xe": "gpu.intel.com",
    "habana.ai/gaudi": "gaudi.intel.com",
    "google.com/tpu": "tpu.google.com",
}
"""Resource → the device class of its vendor, which the profiles describe where there is one of the hardware."""
_MIG: Final = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb(?:\.me)?)")
_SHARED: Final = ".shared"
"""End of the names under which NVIDIA's device plugin offers replicas of one GPU."""
_OTHER: Final = re.compile(r"[^a-z0-9]+")


class ConversionStep(NamedTuple):
    """A change of an object: ``add`` an entry to the mapping at ``path``, ``append`` to the list under ``key``, or
    ``remove`` an entry."""

    action: str
    path: str
    key: str
    value: Any = None


class ExtendedRequest(NamedTuple):
    """A request of the claim."""

    name: str
    resource: str
    number: int


class PodPlan(NamedTuple):
    """The changes of one object."""

    steps: tuple[ConversionStep, ...]
    requests: tuple[ExtendedRequest, ...]
    notes: tuple[str, ...]


def pod_plan(pod: Mapping[str, Any], path: str, template_name: str, chosen: Sequence[str]) -> PodPlan | None:
    """Return the changes by which a pod with this spec at ``path`` uses a claim; None if it requests no device.

    ``chosen`` are the resources to be replaced; all extended resources if it is empty.
    """
    asked = list(_asked(pod, path, chosen))
    if not asked:
        return None
    # With a single request the container may use the claim as a whole, which reads better.
    several = len({(where, resource) for where, _, resource, _ in asked}) > 1
    containers = len({where for where, _, _, _ in asked})
    steps: list[ConversionStep] = []
    requests: list[ExtendedRequest] = []
    notes: list[str] = []
    claims: dict[str, list[JSONObject]] = {}
    for where, container, resource, count in asked:
        short = _OTHER.sub("-", resource.rpartition("/")[2].lower()).strip("-")[:30] or "device"
        name = f"{_OTHER.sub('-', container.lower())}-{short}"[:63].strip("-") if containers > 1 else short
        # Names of requests must be unique within a claim and no longer than 63 characters.
        if any(one.name == name for one in requests):
            name = f"{name[:60]}-{len(requests)}"
        requests.append(ExtendedRequest(name, resource, count))
        claims.setdefault(where, []).append({"name": CLAIM, "request": name} if several else {"name": CLAIM})
        if resource.endswith(_SHARED):
            notes.append(
                f"{resource} is a share of a GPU; a claim has whole GPUs, and pods share one by naming one claim"
            )
        if ".initContainers[" in where:
            notes.append(f"init container {container} gets devices of its own, for as long as the pod lives")
    for where, entries in claims.items():
        resources = _at(pod, where.removeprefix(path))["resources"]
        known = isinstance(resources.get("claims"), list)
        steps.append(ConversionStep(APPEND if known else ADD, f"{where}.resources", "claims", entries))
        steps.extend(_removals(resources, f"{where}.resources", {r for place, _, r, _ in asked if place == where}))
    entry = [{"name": CLAIM, "resourceClaimTemplateName": template_name}]
    known = isinstance(pod.get("resourceClaims"), list)
    steps.append(ConversionStep(APPEND if known else ADD, path, "resourceClaims", entry))
    return PodPlan(tuple(steps), tuple(requests), tuple(notes))


def class_name_of(resource: str) -> str:
    """Return the device class for a resource: its vendor's, or one with the name turned round."""
    if resource in _KNOWN:
        return _KNOWN[resource]
    if _MIG.fullmatch(resource):
        return "mig.nvidia.com"
    domain, _, name = resource.partition("/")
    return f"{_OTHER.sub('-', name.lower()).strip('-')}.{domain.lower()}"


def device_class(resource: str) -> tuple[JSONObject, tuple[str, ...]]:
    """Return a class for a resource, and what could not be known about it."""
    name = class_name_of(resource)
    expression = _expressions_of_vendors().get(name, f"device.driver == '{name}'")
    notes = [f"class {name}: the driver's installation may bring one of that name; then that one is to be kept"]
    if resource not in _KNOWN and not _MIG.fullmatch(resource):
        notes.insert(0, f"class {name}: that the driver for {resource} is called {name} is a guess")
    made: JSONObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    return made, tuple(notes)


def _expressions_of_vendors() -> dict[str, str]:
    """Return device class → its selector, of all profiles."""
    classes = (one for profile in profile_names() for one in load_profile(profile).device_classes)
    return {
        one.metadata.name: one.spec.selectors[0].cel.expression
        for one in classes
        if one.spec.selectors and one.spec.selectors[0].cel is not None
    }


def template(name: str, namespace: str, requests: Sequence[ExtendedRequest]) -> JSONObject:
    """Return the template with these requests."""
    asked: list[JSONObject] = [
        {
            "name": one.name,
            "exactly": {
                "deviceClassName": class_name_of(one.resource),
                **({"count": one.number} if one.number > 1 else {}),
                **_selectors(one.resource),
            },
        }
        for one in requests
    ]
    metadata: JSONObject = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": {"devices": {"requests": [*asked]}}},
    }


def _selectors(resource: str) -> JSONObject:
    """Return the selectors of a request for a resource that is named after the form of its devices."""
    mig = _MIG.fullmatch(resource)
    if mig is None:
        return {}
    profile = mig["profile"].replace(".me", "+me")
    expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
    return {"selectors": [{"cel": {"expression": expression}}]}


def _mentioned(value: object) -> Sequence[str]:
    """Return the extended resources in the limits and requests of any part of an object, each once."""
    found: dict[str, None] = {}
    pending: list[object] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, Mapping):
            pending += part.values()
            for section in ("limits", "requests"):
                amounts = part.get(section)
                if isinstance(amounts, Mapping):
                    found |= dict.fromkeys(one for one in amounts if extended_resource_name(str(one)))
    return sorted(found)


def _asked(pod: Mapping[str, Any], path: str, chosen: Sequence[str]) -> Iterator[tuple[str, str, str, int]]:
    """Yield position and name of a container, a resource that it requests, and the number."""
    for kind in ("initContainers", "containers"):
        several = pod.get(kind)
        for number, container in enumerate(several if isinstance(several, list) else ()):
            resources = container.get("resources") if isinstance(container, Mapping) else None
            if not isinstance(resources, Mapping):
                continue
            amounts: JSONObject = {}
            for section in ("requests", "limits"):
                given = resources.get(section)
                amounts |= given if isinstance(given, Mapping) else {}
            for resource, amount in amounts.items():
                if not extended_resource_name(resource) or (chosen and resource not in chosen):
                    continue
                count = _count(amount)
                if count > 0:
                    yield f"{path}.{kind}[{number}]", str(container.get("name", "")), resource, count


def _count(amount: Any) -> int:
    """Return the number of devices in a quantity; 0 if it is none."""
    if isinstance(amount, bool) or not isinstance(amount, (int, str)):
        return 0
    try:
        return Quantity(amount).value()
    except QuantityError:
        return 0


def _removals(resources: Mapping[str, Any], path: str, gone: set[str]) -> Iterator[ConversionStep]:
    for section in ("limits", "requests"):
        given = resources.get(section)
        if not isinstance(given, Mapping) or not gone & given.keys():
            continue
        if given.keys() <= gone:
            yield ConversionStep(REMOVE, path, section)
            continue
        for resource in given:
            if resource in gone:
                yield ConversionStep(REMOVE, f"{path}.{section}", resource)


def _at(value: Any, path: str) -> Any:
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(index)]
    return value
