"""The tools: names, purposes and arguments for agents, the questions to the engine that they stand for, and short forms
of answers.

The arguments are the fields of the question, with its types and defaults. Manifests are one text instead of files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.api.jsonvalue import JSONObject
from cathedra.engine import Engine, messages
from cathedra.engine.messages import Answer, Question
from cathedra.insight.rendering import API_VERSION

MOST_CHARACTERS: Final = 5000
"""Characters of an answer: less than 2,000 tokens, as JSON with figures and names has 2.7 characters in a token."""
_ROOM: Final = 200
"""Characters of an answer around its model and the sentences on it."""
_ERROR_CHARACTERS: Final = 1000
MANIFESTS: Final = "manifests"
_NAMESPACE: Final = "namespace of the subject or manifests (default: default)"


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool, and its question to the engine."""

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


# Short forms of models: beginnings of their lists, and a sentence on each list that was cut.
#
# An agent pays for each character of an answer and reads no more than some thousands. The list that takes the most room
# is cut first, so that a long list leaves room for the others; a list of a list's items is cut after the outer one.

_FIRST_ITEMS: Final = 50
"""Items of a list in the first attempt. Hundreds of names of nodes would fit, and help little."""
_FIRST_CHARACTERS: Final = 1000
"""Characters of a string in the first attempt."""
_FIELDS: Final = 40
"""A mapping with more keys is no struct but a table, and is cut as a list is."""


def shortened(model: JSONObject, most: int) -> tuple[JSONObject, tuple[str, ...]]:
    """Return the model in at most ``most`` characters of JSON, and sentences on what was left out.

    The sentences count as well. A model that fits is returned as it is.
    """
    if _size(model) <= most:
        return model, ()
    bounds: dict[str, int] = {}
    characters = _FIRST_CHARACTERS
    while characters:
        cut = _Cut(bounds, characters)
        shown, left_out = cut.value(model, ""), cut.sentences()
        if _size(shown) + _size(left_out) <= most:
            return shown, left_out
        path = cut.largest()
        if path:
            bounds[path] = cut.kept[path] * 3 // 4
        else:
            characters //= 2
    return {key: model[key] for key in ("apiVersion", "kind") if key in model}, ("everything: it is too long",)


def _size(value: Any) -> int:
    """Return the characters of a value in JSON."""
    return len(msgspec.json.encode(value).decode())


@dataclass(slots=True)
class _Cut:
    """One attempt, and what it left out by path. Items of one list, and of all lists at its path, share a path."""

    bounds: dict[str, int]
    characters: int
    kept: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Path → items of the longest list that is left."""
    _sizes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _shown: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _totals: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _strings: int = 0

    def value(self, value: Any, path: str) -> Any:
        """Return the short form of a value."""
        if isinstance(value, str) and len(value) > self.characters:
            self._strings += 1
            return f"{value[: self.characters - 1]}…"
        if isinstance(value, list | tuple):
            bound = self.bounds.get(path, _FIRST_ITEMS)
            shown = [self.value(item, f"{path}[]") for item in value[:bound]]
            return self._noted(shown, len(value), path)
        if isinstance(value, dict):
            return self._mapping(value, path)
        return value

    def _mapping(self, value: JSONObject, path: str) -> Any:
        if len(value) > _FIELDS:
            names = list(value)[: self.bounds.get(path, _FIRST_ITEMS)]
            return self._noted({name: self.value(value[name], f"{path}[]") for name in names}, len(value), path)
        start = f"{path}." if path else ""
        return {name: self.value(item, f"{start}{name}") for name, item in value.items() if not _is_empty(item)}

    def _noted(self, shown: Any, total: int, path: str) -> Any:
        self.kept[path] = max(self.kept[path], len(shown))
        self._sizes[path] += _size(shown)
        self._shown[path] += len(shown)
        self._totals[path] += total
        return shown

    def largest(self) -> str:
        """Return the path whose lists take the most room; "" if no list has an item."""
        # The last item of a list shows what its items are, so lists with more are cut first.
        return max(
            (path for path, number in self.kept.items() if number),
            key=lambda path: (self.kept[path] > 1, self._sizes[path]),
            default="",
        )

    def sentences(self) -> tuple[str, ...]:
        """Return what is missing."""
        found = [
            f"{path}: the first {self._shown[path]:,} of {total:,} are shown"
            for path, total in sorted(self._totals.items())
            if self._shown[path] < total
        ]
        if self._strings:
            found.append(f"the ends of {self._strings:,} strings longer than {self.characters:,} characters")
        return (*found, "empty fields")


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)
