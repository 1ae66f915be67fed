"""From device plugins to claims: a text whose pods ask for extended resources, rewritten.

The steps of `cathedra.insight.conversion.extended` are taken one by one, on the text and on its values; at the end both
have to say the same. Classes and templates are added behind, with comments on what could not be known.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from cathedra.api.decoding import write_yaml
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.conversion.documents import changed_values, documents_of, json_of, json_written, parts_in
from cathedra.insight.conversion.edits import TextEdit, Unconvertible, add_entry, edited, remove_entry
from cathedra.insight.conversion.extended import (
    APPEND,
    REMOVE,
    ConversionStep,
    PodPlan,
    class_name_of,
    device_class,
    pod_plan,
    template,
)
from cathedra.insight.manifests.places import find_node
from cathedra.insight.manifests.podspecs import POD_SPECS
from cathedra.insight.manifests.tree import YAMLNode

__all__ = ["DevicePluginChange"]

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
        """The text with claims in place of extended resources.

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
        is_list = isinstance(made, dict) and made.get("kind") == "List"
        items = [*made["items"], *new] if is_list else [made, *new]
        return json_written({**(made if is_list else {"apiVersion": "v1", "kind": "List"}), "items": items}, text)

    def _changed(self, value: Any) -> Any:
        """The values of a document with claims; what has to be done is noted object by object."""

        def change(one: Mapping[str, Any], gvk: GroupVersionKind) -> Any:
            plan = self._plan(one, gvk)
            self._steps.append(plan.steps if plan is not None else ())
            return one if plan is None else _stepped(one, plan.steps)

        return changed_values(value, change)

    def _plan(self, value: Mapping[str, Any], gvk: GroupVersionKind) -> PodPlan | None:
        """What to do with one object; the objects that it needs are noted."""
        path = POD_SPECS.get(gvk.kind)
        metadata = value.get("metadata")
        if path is None or gvk.group not in _GROUPS or not isinstance(metadata, Mapping):
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
            f"{where}: which model, how much memory and whether devices may be shared was never said; "
            "a request can say it with selectors",
        )
        self.notes += notes
        self._added += [one for resource in resources for one in self._class(resource)]
        made = template(template_name, str(metadata.get("namespace") or ""), plan.requests)
        self._added.append(_Added(made, notes))
        return plan

    def _class(self, resource: str) -> Iterator[_Added]:
        name = class_name_of(resource)
        if name in self._classes:
            return
        self._classes.add(name)
        made, notes = device_class(resource)
        self.notes += notes
        hint = f"with extendedResourceName: {resource} in its spec pods may go on to ask as before (1.34 and later)"
        yield _Added(made, (*notes, hint))


def _edit(text: str, root: YAMLNode, step: ConversionStep) -> TextEdit:
    node, _, found = find_node(root, step.path)
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
    """Whether lists of the object are indented below their keys."""
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
