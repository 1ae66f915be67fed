"""Questions and answers as they travel: JSON, one object each.

    {"question": "explain", "id": 7, "subject": "pod/train", "namespace": "team-a", "width": 100}
    {"apiVersion": "cathedra.dev/v1", "kind": "Answer", "id": 7, "question": "explain", "result": {…}, "text": "…"}

``result`` is the model that the command prints with ``-o json``, and ``text`` is the command's text. A question that
cannot be answered has ``error`` instead; there is no other form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.reading.state import Note
from cathedra.insight.rendering import API_VERSION

WIDEST: Final = 400
"""Columns of the widest text."""


class _Asked(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="question", tag=str.lower):
    """Fields of every question."""

    id: int | str | None = None
    """Chosen by the sender; the answer has the same."""
    width: int = 0
    """Columns of the text; 0: the answer has no text."""
    at: float = 0.0
    """Time of the state that is meant, in seconds since the Unix epoch, where a cluster is followed; 0: the present."""


class SentFile(msgspec.Struct, frozen=True, rename="camel"):
    """A file of a dump or a manifest. It has a text, or content in base64, as archives and packed files need."""

    name: str
    text: str | None = None
    content: bytes | None = None


class Load(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Replace the state by that of a dump. The result is a `Summary`."""

    files: tuple[SentFile, ...]
    release: str = ""
    """Release whose defaults apply, as ``1.36``; "" for that of the newest kubelet."""
    feature_gates: Mapping[str, bool] = {}


class Summarize(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Return the `Summary` of the state."""


class Map(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Return everything that the device map shows. The result is a ClusterMap."""

    compact: bool = False
    """Return a CompactMap, which has the same in a third of the bytes."""


class Devices(_Asked, frozen=True, kw_only=True, rename="camel"):
    """List devices. The result is a DeviceList."""

    device_class: str = ""
    node: str = ""
    driver: str = ""
    free: bool = False
    wide: bool = False
    """The text shows everything that is known of each device."""


class Explain(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Explain one subject, manifests, or all that waits. The result is an Explanation or an ExplanationOverview."""

    subject: str = ""
    """``pod/NAME``, ``claim/NAME``, ``deployment/NAME`` …; "" for all that waits."""
    namespace: str = ""
    """"" means ``default`` for a subject and for manifests, and all namespaces for all that waits."""
    node: str = ""
    """Only this node is tried."""
    files: tuple[SentFile, ...] = ()
    """Manifests that are explained as if they were applied."""


class Simulate(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Simulate changes, in the forms of ``kubectl dra simulate``. The result is a Simulation."""

    files: tuple[SentFile, ...] = ()
    """Manifests that are applied."""
    delete: tuple[str, ...] = ()
    add_nodes: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    force: bool = False
    """Drain also pods that no controller creates again."""
    taint: tuple[str, ...] = ()
    replicas: tuple[str, ...] = ()
    namespace: str = "default"
    copies: int = 100
    """Largest number of further copies that are tried, to count how many more fit."""
    seed: int = 0
    wide: bool = False
    """The text lists every pod and node."""


class Lint(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Check manifests. The result is a LintReport."""

    files: tuple[SentFile, ...]
    against: bool = False
    """Check them also against the devices and classes of the state."""
    release: str = ""
    feature_gates: Mapping[str, bool] = {}


class Match(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Evaluate a selector on all devices. The result is a SelectorMatch."""

    expression: str
    driver: str = ""
    wide: bool = False
    """The text names every device."""


class Usage(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Count the devices that claims hold. The result is a UsageReport."""

    by: Literal["namespace", "class", "driver", "node"] = "namespace"
    namespace: str = ""
    """"" means all namespaces."""
    since: str = ""
    """Length of the time for which device-hours are added, as ``7d``; "": none. It needs a history."""


class Evaluate(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Evaluate an expression on one device, with the value of each part. The result is an `EvaluatedExpression`."""

    expression: str
    device: str = ""
    """``driver/pool/device``, or its name; "" compiles the expression only."""


class Complete(_Asked, frozen=True, kw_only=True, rename="camel"):
    """Return continuations of the beginning of an expression. The result is a `Completions`."""

    before: str
    """The text before the cursor."""


class ShowObject(_Asked, frozen=True, kw_only=True, rename="camel", tag="object"):
    """Return one object of the state. The result is a `ShownObject`, and the text is YAML."""

    object_kind: str
    """Kind of the object, as ``ResourceClaim``."""
    name: str
    namespace: str = ""


Question: TypeAlias = (
    Load | Summarize | Map | Devices | Explain | Simulate | Lint | Match | Usage | Evaluate | Complete | ShowObject
)
"""Any question; ``question`` is its name in lower case."""


class AnswerError(msgspec.Struct, frozen=True, rename="camel"):
    """The reason why there is no result."""

    reason: str
    """«invalid»: of the question or its files, in one line for people; «internal»: a fault of the program."""
    text: str
    line: int = 0
    """Position in the expression, counted from 1; 0 where there is none."""
    column: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to one question: a result, or an error."""

    question: str
    id: int | str | None = None
    result: Mapping[str, Any] | None = None
    """The model, with its ``apiVersion`` and ``kind``."""
    text: str = ""
    left_out: tuple[str, ...] = ()
    """Parts that limits have removed from the state or from this answer, a sentence each."""
    error: AnswerError | None = None

    def to_dict(self) -> JSONObject:
        """Return the answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Answer", **found}

    def encode(self) -> bytes:
        """Return the answer as JSON."""
        head = msgspec.json.encode({"apiVersion": API_VERSION, "kind": "Answer"})
        return b"%b,%b" % (head[:-1], msgspec.json.encode(self)[1:])


# --- models that no command prints


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """Contents of the state, counted."""

    source: str
    release: str
    objects: Mapping[str, int]
    """Kind → number of objects."""
    devices: int
    namespaces: tuple[str, ...]
    notes: tuple[Note, ...] = ()


class EvaluatedPart(msgspec.Struct, frozen=True, rename="camel"):
    """One part of an expression with its value. ``start`` and ``end`` count code points."""

    start: int
    end: int
    depth: int
    source: str
    value: str
    error: str = ""
    reached: bool = True


class EvaluatedExpression(msgspec.Struct, frozen=True, rename="camel"):
    """An expression, and its value on a device."""

    expression: str
    type: str
    cost: int
    """The estimate of the expression's cost; the API server accepts 1,000,000."""
    device: str = ""
    value: str = ""
    error: str = ""
    parts: tuple[EvaluatedPart, ...] = ()


class Completion(msgspec.Struct, frozen=True, rename="camel"):
    """A continuation: its text replaces the last ``replaced`` characters before the cursor."""

    text: str
    replaced: int


class Completions(msgspec.Struct, frozen=True, rename="camel"):
    """Continuations of the beginning of an expression."""

    completions: tuple[Completion, ...]


class ShownObject(msgspec.Struct, frozen=True, rename="camel"):
    """An object as the API has it, in the newest version of its kind."""

    object: Mapping[str, Any]


def model_of(value: msgspec.Struct) -> JSONObject:
    """Return a model of this module as plain values."""
    found: JSONObject = msgspec.to_builtins(value)
    return {"apiVersion": API_VERSION, "kind": type(value).__name__, **found}


_QUESTION: Final = msgspec.json.Decoder(Question)


def decode_question(body: bytes | str) -> Question:
    """Decode a question.

    Raises:
        msgspec.MsgspecError: it is no JSON, there is no such question, or a field has the wrong type.
    """
    found: Question = _QUESTION.decode(body)
    return found


def identity_of(body: bytes | str) -> tuple[str, int | str | None]:
    """Return question and id of a message that cannot be decoded as a whole, as far as it has them."""
    try:
        found = msgspec.json.decode(body, type=_QuestionIdentity)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return "", None
    return found.question, found.id


class _QuestionIdentity(msgspec.Struct, frozen=True):
    question: str = ""
    id: int | str | None = None
