"""The tools: names, purposes and arguments for agents, and the questions to the engine that they stand for.

The arguments are the fields of the question, with its types and defaults. Manifests are one text instead of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.engine import Engine, messages
from cathedra.engine.messages import Answer, Question
from cathedra.insight.rendering import API_VERSION
from cathedra.mcp.shortening import shortened

MOST_CHARACTERS: Final = 5000
"""Characters of an answer: less than 2,000 tokens, as JSON with figures and names has 2.7 characters in a token."""
_ROOM: Final = 200
"""Characters of an answer around its model and the sentences on it."""
_ERROR_CHARACTERS: Final = 1000
MANIFESTS: Final = "manifests"
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
    methods: tuple[str, ...] = ("GET",)
    """Methods of the tool over HTTP: GET with a query, POST with a JSON object."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        _, components = msgspec.json.schema_components([self.question])
        fields = {**components[self.question.__name__]["properties"], MANIFESTS: {"type": "string"}}
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
            MANIFESTS: "YAML of pods, workloads and claims, explained as if they were applied",
        },
        methods=("GET", "POST"),
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
        "Count the devices that claims hold now by namespace, class, driver or node, beside the quotas; device-hours "
        "of a time, if an advisor keeps a history.",
        messages.Usage,
        {
            "by": "what is summed",
            "namespace": "only claims of this namespace (default: all)",
            "since": "add the device-hours of this time, as 90m, 24h or 7d",
        },
    ),
    AgentTool(
        "simulate",
        "Simulate changes on a copy of the cluster with scheduler and controllers: which pods are placed, moved, gone "
        "or pending, and why, and how many more copies fit. Nothing is written to the cluster.",
        messages.Simulate,
        {
            MANIFESTS: "YAML to apply",
            "namespace": _NAMESPACE,
            "delete": "objects to delete, as KIND/NAME",
            "addNodes": "nodes to add, as COUNT=NODE (like an existing one) or COUNT=PROFILE",
            "drain": "nodes to drain",
            "force": "drain also pods that no controller creates again",
            "taint": "NODE=KEY:EFFECT, or DRIVER/POOL/DEVICE=KEY:EFFECT; with - at the end the taint is dropped",
            "replicas": "workloads to scale, as KIND/NAME=COUNT",
            "copies": "largest number of further copies to try",
        },
        methods=("POST",),
    ),
    AgentTool(
        "lint",
        "Check manifests (claims, templates, classes, slices, pods) before an API server or a device refuses them.",
        messages.Lint,
        {
            MANIFESTS: "YAML to check",
            "against": "check also against the devices and classes of the cluster",
            "release": "Kubernetes release, as 1.36",
        },
        (MANIFESTS,),
        methods=("POST",),
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
        methods=("GET", "POST"),
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
    try:
        question = question_of(name, arguments)
    except InvalidInput as error:
        return error_answer(str(error))
    return short_answer(source.engine.answer(question), source.outdated())


def question_of(name: str, arguments: Mapping[str, Any]) -> Question:
    """Return the question for a call of the tool ``name``.

    Raises:
        InvalidInput: there is no such tool, or an argument is missing, unknown, or of the wrong type.
    """
    tool = _BY_NAME.get(name)
    if tool is None:
        raise InvalidInput(f"there is no tool {name!r}; there are {', '.join(_BY_NAME)}")
    unknown = sorted(set(arguments) - set(tool.arguments))
    if unknown:
        raise InvalidInput(f"{name} has no argument {unknown[0]!r}; it has {', '.join(tool.arguments)}")
    missing = [one for one in tool.required if one not in arguments]
    if missing:
        raise InvalidInput(f"{name} needs the argument {missing[0]!r}: {tool.arguments[missing[0]]}")
    fields = {**arguments, "question": tool.question.__struct_config__.tag}
    try:
        if MANIFESTS in fields:
            # An empty text is no manifest, and a file without objects would be an error.
            text = msgspec.convert(fields.pop(MANIFESTS), str)
            if text.strip() or MANIFESTS in tool.required:
                fields["files"] = [{"name": f"{MANIFESTS}.yaml", "text": text}]
        found: Question = msgspec.convert(fields, tool.question)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{name}: {error}") from error
    return found


def short_answer(answer: Answer, outdated: tuple[str, ...] = (), most: int = MOST_CHARACTERS) -> ToolAnswer:
    """Return an answer of the engine in at most ``most`` characters; 0: in full."""
    if answer.error is not None:
        return error_answer(answer.error.text)
    before = [*outdated, *answer.left_out]
    model: dict[str, Any] = dict(answer.result or {})
    left_out: tuple[str, ...] = ()
    if most:
        model, left_out = shortened(model, most - _ROOM - len(msgspec.json.encode(before)))
    # What is missing comes first: an agent must not take the rest for everything.
    found = {"apiVersion": API_VERSION, "kind": "Answer", "leftOut": [*before, *left_out], "result": model}
    return ToolAnswer(msgspec.json.encode(found).decode())


def error_answer(text: str) -> ToolAnswer:
    """Return an error in one line of a bounded length."""
    line = " ".join(text.split())
    return ToolAnswer(line if len(line) <= _ERROR_CHARACTERS else f"{line[: _ERROR_CHARACTERS - 1]}…", failed=True)
