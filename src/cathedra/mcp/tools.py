"""The tools: names, purposes and arguments for agents, and the questions to the engine that they stand for.

The arguments are the fields of the question, with its types and defaults. Manifests are one text instead of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.engine import Engine, messages
from cathedra.engine.messages import Answer, Question
from cathedra.insight.rendering import API_VERSION
from cathedra.mcp.shortening import shortened

MOST_CHARACTERS: Final = 6000
"""Characters of an answer: less than 2,000 tokens, as JSON with names has three characters or more in a token."""
_ROOM: Final = 200
"""Characters of an answer around its model and the sentences on it."""
_ERROR_CHARACTERS: Final = 1000
_MANIFESTS: Final = "manifests"
_NAMESPACE: Final = "namespace of the subject or manifests (default: default)"


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool, and the question that it stands for."""

    name: str
    purpose: str
    question: type[Question]
    arguments: Mapping[str, str]
    """Argument → its description."""
    required: tuple[str, ...] = ()

    def schema(self) -> JSONObject:
        """Return the JSON Schema of the arguments."""
        _, components = msgspec.json.schema_components([self.question])
        fields = {**components[self.question.__name__]["properties"], _MANIFESTS: {"type": "string"}}
        return {
            "type": "object",
            "properties": {name: {**fields[name], "description": text} for name, text in self.arguments.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }


TOOLS: Final = (
    AgentTool(
        "explain",
        "Explain why a pod, claim or workload waits for devices, what it holds, and the smallest changes that would "
        "help. Without a subject: all that waits, grouped by cause. With manifests: whether they would fit.",
        messages.Explain,
        {
            "subject": "pod/NAME, claim/NAME, deployment/NAME …; empty for all that waits",
            "namespace": f"{_NAMESPACE}; of all that waits: only this namespace",
            "node": "try only this node",
            _MANIFESTS: "YAML of pods, workloads and claims, explained as if they were applied",
        },
    ),
    AgentTool(
        "devices",
        "List devices with their state and holders, and totals by node, class, driver and namespace. Select a node, "
        "class or driver: of a large cluster only the first devices fit into an answer.",
        messages.Devices,
        {
            "deviceClass": "only devices of this DeviceClass",
            "node": "only devices of this node",
            "driver": "only devices of this driver",
            "free": "only free devices",
        },
    ),
    AgentTool(
        "usage",
        "Count the devices that claims hold now by namespace, class, driver or node, beside the quotas.",
        messages.Usage,
        {"by": "what is summed", "namespace": "only claims of this namespace (default: all)"},
    ),
    AgentTool(
        "simulate",
        "Simulate changes on a copy of the cluster with scheduler and controllers: which pods are placed, moved, gone "
        "or pending, and why, and how many more copies fit. Nothing is written to the cluster.",
        messages.Simulate,
        {
            _MANIFESTS: "YAML to apply",
            "namespace": _NAMESPACE,
            "delete": "objects to delete, as KIND/NAME",
            "addNodes": "nodes to add, as COUNT=NODE (like an existing one) or COUNT=PROFILE",
            "drain": "nodes to drain",
            "force": "drain also pods that no controller creates again",
            "taint": "NODE=KEY:EFFECT, or DRIVER/POOL/DEVICE=KEY:EFFECT; with - at the end the taint is dropped",
            "replicas": "workloads to scale, as KIND/NAME=COUNT",
            "copies": "largest number of further copies to try",
        },
    ),
    AgentTool(
        "lint",
        "Check manifests (claims, templates, classes, slices, pods) before an API server or a device refuses them.",
        messages.Lint,
        {
            _MANIFESTS: "YAML to check",
            "against": "check also against the devices and classes of the cluster",
            "release": "Kubernetes release, as 1.36",
        },
        (_MANIFESTS,),
    ),
    AgentTool(
        "match",
        "Evaluate a CEL selector on all devices: which it selects, on which it fails, and which it nearly selects.",
        messages.Match,
        {
            "expression": 'CEL, as device.driver == "gpu.example.com"',
            "driver": "only devices of this driver",
        },
        ("expression",),
    ),
)
"""All of them; none writes to a cluster."""
_BY_NAME: Final = {one.name: one for one in TOOLS}


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call: JSON, or an error in one line."""

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class AgentSource:
    """Source of answers: the engine, and the seconds for which the server that it follows has not answered."""

    engine: Engine
    silence: Callable[[], float] = lambda: 0.0

    def outdated(self) -> tuple[str, ...]:
        """Return a sentence on changes that could not be read."""
        seconds = self.silence()
        return (f"changes of the last {seconds:.0f} s, in which the API server did not answer",) if seconds else ()


def answer_call(source: AgentSource, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
    """Answer a call of the tool ``name``. Never raises."""
    tool = _BY_NAME.get(name)
    if tool is None:
        return _error(f"there is no tool {name!r}; there are {', '.join(_BY_NAME)}")
    unknown = sorted(set(arguments) - set(tool.arguments))
    if unknown:
        return _error(f"{name} has no argument {unknown[0]!r}; it has {', '.join(tool.arguments)}")
    missing = [one for one in tool.required if one not in arguments]
    if missing:
        return _error(f"{name} needs the argument {missing[0]!r}: {tool.arguments[missing[0]]}")
    try:
        question = _question(tool, arguments)
    except msgspec.ValidationError as error:
        return _error(f"{name}: {error}")
    return _short(source.engine.answer(question), source.outdated())


def _question(tool: AgentTool, arguments: Mapping[str, Any]) -> Question:
    fields = {**arguments, "question": tool.question.__struct_config__.tag}
    if _MANIFESTS in fields:
        # An empty text is no manifest, and a file without objects would be an error.
        text = msgspec.convert(fields.pop(_MANIFESTS), str)
        if text.strip() or _MANIFESTS in tool.required:
            fields["files"] = [{"name": f"{_MANIFESTS}.yaml", "text": text}]
    found: Question = msgspec.convert(fields, tool.question)
    return found


def _short(answer: Answer, outdated: tuple[str, ...]) -> ToolAnswer:
    if answer.error is not None:
        return _error(answer.error.text)
    before = [*outdated, *answer.left_out]
    room = MOST_CHARACTERS - _ROOM - len(msgspec.json.encode(before))
    model, left_out = shortened(dict(answer.result or {}), room)
    # What is missing comes first: an agent must not take the rest for everything.
    found = {"apiVersion": API_VERSION, "kind": "Answer", "leftOut": [*before, *left_out], "result": model}
    return ToolAnswer(msgspec.json.encode(found).decode())


def _error(text: str) -> ToolAnswer:
    line = " ".join(text.split())
    return ToolAnswer(line if len(line) <= _ERROR_CHARACTERS else f"{line[: _ERROR_CHARACTERS - 1]}…", failed=True)
