"""`Engine`: the state of a cluster and the answers to questions about it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol, cast

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import NamedContent
from cathedra.api.core.core_v1 import Node
from cathedra.api.decoding import write_yaml
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.resource import ResourceSlice
from cathedra.api.scheme import kind_of
from cathedra.api.status import StatusError
from cathedra.api.struct import to_dict
from cathedra.cel.errors import CompileError
from cathedra.cel.values import text as value_text
from cathedra.deadline import DeadlineExceeded, Interruption
from cathedra.engine import messages
from cathedra.engine.limits import Limits, bounded_answer, load_dump, with_few_devices
from cathedra.engine.messages import Answer, AnswerError, Question, SentFile, model_of
from cathedra.insight.explanation.explain import explain, explain_all
from cathedra.insight.explanation.report import Explanation, ExplanationOverview, explanation_text, overview_text
from cathedra.insight.inventory.clustermap import ClusterMap, cluster_map
from cathedra.insight.inventory.compactmap import compact_map
from cathedra.insight.inventory.listing import devices
from cathedra.insight.inventory.livemap import LiveMap
from cathedra.insight.inventory.report import devices_text
from cathedra.insight.inventory.usage import UsagePeriod, usage, usage_text
from cathedra.insight.linting.lint import lint
from cathedra.insight.linting.report import lint_text
from cathedra.insight.matching import ReplSession, compiled_expression, explained_parts, match, match_text
from cathedra.insight.reading.features import RequestedRelease
from cathedra.insight.reading.state import READ_KINDS, ClusterState
from cathedra.profiles import ProfileError, profile_names
from cathedra.releases import UnknownGate

_log: Final = logging.getLogger(__name__)
_INVALID: Final = (InvalidInput, UnknownGate, ProfileError, StatusError)
"""Errors of the question and its files."""
_WITH_EXPRESSION: Final = (messages.Match, messages.Evaluate)
_Result = tuple[JSONObject, str]
"""Model and text of an answer."""


@dataclass(frozen=True, slots=True)
class UsageHistory:
    """The history of an advisor, and the namespaces that answers may name; None: all."""

    file: Path
    namespaces: frozenset[str] | None = None


class PastStates(Protocol):
    """Earlier states of a cluster."""

    def at(self, seconds: float) -> ClusterState:
        """Return the state of a moment.

        Raises:
            InvalidInput: it is not kept.
        """


class Engine:
    """Answers questions about one state. It can be called in a thread: states are frozen, and replaced as a whole."""

    def __init__(
        self, state: ClusterState | None = None, limits: Limits | None = None, history: UsageHistory | None = None
    ) -> None:
        """Create an engine.

        An engine that is given a state refuses to load files: a page must not replace what a server follows.
        """
        self._history = history
        self._loads = state is None
        self._limits = limits or Limits()
        self._state: ClusterState | None = None
        self._left_out: Sequence[str] = ()
        self._session: tuple[ClusterState, ReplSession] | None = None
        self._map: tuple[ClusterState, ClusterMap] | None = None
        self._encoded: tuple[ClusterState, dict[bool, bytes]] | None = None
        self.past: PastStates | None = None
        """Earlier states, to which a question may refer; None: there are none."""
        self._former: tuple[ClusterState, Engine] | None = None
        if state is not None:
            self.replace(state)

    def _of(self, moment: float) -> Engine:
        """Return an engine of the state at an earlier moment.

        Raises:
            InvalidInput: no earlier states are kept, or none as early as that.
        """
        if self.past is None:
            raise InvalidInput(
                "no earlier states are kept here; kubectl dra map keeps those of the cluster that it follows"
            )
        state = self.past.at(moment)
        if self._former is None or self._former[0] is not state:
            self._former = state, Engine(state, self._limits, self._history)
        return self._former[1]

    def replace(self, state: ClusterState, live: LiveMap | None = None) -> None:
        """Set the state to which later questions refer, without devices beyond the limit.

        ``live`` has the map of the state that was set before; it computes that of ``state``, and may do so in another
        thread than that of the questions.
        """
        few, left_out = with_few_devices(state, self._limits.devices)
        if live is not None:
            self._map = (few, _without_gone(live.of(few), left_out))
        self._state, self._left_out = few, left_out

    @property
    def map(self) -> ClusterMap:
        """The map of the state. It is computed once: of 5,000 nodes with 8 devices in a second or two.

        Raises:
            InvalidInput: there is no state yet.
        """
        state, known = self.state, self._map
        if known is None or known[0] is not state:
            known = self._map = (state, _without_gone(cluster_map(state), self._left_out))
        return known[1]

    @property
    def state(self) -> ClusterState:
        """The state.

        Raises:
            InvalidInput: there is none yet.
        """
        if self._state is None:
            raise InvalidInput("no cluster is loaded")
        return self._state

    def answer_json(self, body: bytes | str) -> bytes:
        """Answer a question in JSON. Never raises: what cannot be answered is an answer with an error."""
        try:
            question = messages.decode_question(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            name, number = messages.identity_of(body)
            return Answer(question=name, id=number, error=AnswerError("invalid", f"the question: {error}")).encode()
        if isinstance(question, messages.Map) and self._state is not None and not question.at:
            return self._encoded_map(question)
        return self.answer(question).encode()

    def answer(self, question: Question, interruption: Interruption | None = None) -> Answer:
        """Answer a question. What cannot be answered is an answer with an error.

        Raises:
            DeadlineExceeded: ``interruption`` ended the computation. Without one nothing is raised.
        """
        name: str = question.__struct_config__.tag  # type: ignore[assignment]  # every question has a tag
        try:
            if question.at:
                return self._of(question.at).answer(msgspec.structs.replace(question, at=0.0), interruption)
            model, text = self._result(question, interruption)
            model, text, cut = bounded_answer(model, text, self._limits)
        except DeadlineExceeded:
            raise
        except _INVALID as error:
            return Answer(question=name, id=question.id, error=_invalid(error, question))
        # A page shows a fault and goes on. Raised, it would end the worker, or the server's connection.
        except Exception as error:
            _log.exception("question %s failed", name)
            text = f"{type(error).__name__}: {error}"
            return Answer(question=name, id=question.id, error=AnswerError("internal", text))
        return Answer(question=name, id=question.id, result=model, text=text, left_out=(*self._left_out, *cut))

    def _encoded_map(self, question: messages.Map) -> bytes:
        """Answer with the map, which is encoded once for each state and form: its devices are megabytes."""
        state = self.state
        if self._encoded is None or self._encoded[0] is not state:
            # Both forms go with their state: an old one would keep all of its objects in memory.
            self._encoded = (state, {})
        forms = self._encoded[1]
        if question.compact not in forms:
            forms[question.compact] = self.answer(messages.Map(compact=question.compact)).encode()
        # Only the id differs between two answers.
        return forms[question.compact].replace(b'"id":null', b'"id":' + msgspec.json.encode(question.id), 1)

    def _result(self, question: Question, interruption: Interruption | None) -> _Result:
        match question:
            case messages.Load():
                return self._load(question)
            case messages.Summarize():
                return self._summary()
            case messages.Map(compact=True):
                # Without plain values in between, which would take longer than everything else.
                return cast("JSONObject", msgspec.Raw(compact_map(self.map).encode())), ""
            case messages.Map():
                return self.map.to_dict(), ""
            case messages.Devices():
                return self._devices(question)
            case messages.Explain():
                return self._explain(question, interruption)
            case messages.Simulate():
                return self._simulate(question, interruption)
            case messages.Lint():
                return self._lint(question)
            case messages.Match():
                return self._match(question, interruption)
            case messages.Usage():
                return self._usage(question)
            case messages.Evaluate():
                return self._evaluate(question)
            case messages.Complete():
                return self._complete(question)
            case messages.ShowObject():
                return self._object(question)

    # --- the state

    def _load(self, asked: messages.Load) -> _Result:
        if not self._loads:
            raise InvalidInput(f"the state is that of {self.state.source}; files cannot be loaded here")
        requested = RequestedRelease(asked.release, asked.feature_gates)
        loaded = load_dump(list(_contents(asked.files)), requested, self._limits)
        self._state, self._left_out = loaded.state, loaded.left_out
        return self._summary()

    def _summary(self) -> _Result:
        state = self.state
        counts = {kind.__name__: len(items) for kind, items in state.objects.items() if items}
        summary = messages.Summary(
            source=state.source,
            release=state.gates.release,
            objects=dict(sorted(counts.items())),
            devices=sum(len(one.spec.devices or ()) for one in state.all(ResourceSlice)),
            namespaces=tuple(sorted({key[0] for items in state.objects.values() for key in items if key[0]})),
            notes=state.notes,
        )
        return model_of(summary), ""

    def _object(self, asked: messages.ShowObject) -> _Result:
        known = {one.ref.kind: one.ref.type for one in READ_KINDS}
        if asked.object_kind not in known:
            raise InvalidInput(f"objects of kind {asked.object_kind!r} are not read")
        found = self.state.get(known[asked.object_kind], asked.name, asked.namespace)
        if found is None:
            where = f"{asked.namespace}/{asked.name}" if asked.namespace else asked.name
            raise InvalidInput(f"there is no {asked.object_kind} {where} in {self.state.source}")
        gvk = kind_of(type(found))
        plain = {"apiVersion": gvk.api_version, "kind": gvk.kind, **to_dict(found)}
        return model_of(messages.ShownObject(plain)), write_yaml(plain, sort_keys=False).decode() if asked.width else ""

    # --- the commands

    def _devices(self, asked: messages.Devices) -> _Result:
        found = devices(
            self.state, device_class=asked.device_class, node=asked.node, driver=asked.driver, free=asked.free
        )
        return found.to_dict(), _text(asked, partial(devices_text, found, wide=asked.wide))

    def _explain(self, asked: messages.Explain, interruption: Interruption | None) -> _Result:
        if asked.subject and asked.files:
            raise InvalidInput("give either a subject or manifests")
        found: Explanation | ExplanationOverview
        if asked.files:
            manifests = list(_contents(asked.files))
            found = explain(self.state, namespace=asked.namespace or "default", node=asked.node, manifests=manifests)
        elif asked.subject:
            found = explain(self.state, asked.subject, namespace=asked.namespace or "default", node=asked.node)
        else:
            found = explain_all(self.state, namespace=asked.namespace, node=asked.node, interruption=interruption)
        if isinstance(found, Explanation):
            return found.to_dict(), _text(asked, partial(explanation_text, found))
        return found.to_dict(), _text(asked, partial(overview_text, found))

    def _simulate(self, asked: messages.Simulate, interruption: Interruption | None) -> _Result:
        # start-up time: scheduler, controllers and API server
        from cathedra.insight.simulation.report import simulation_text
        from cathedra.insight.simulation.run import PlannedChanges, simulate

        if not 0 <= asked.copies <= self._limits.copies:
            raise InvalidInput(f"copies must be between 0 and {self._limits.copies}, got {asked.copies}")
        self._refuse_unknown_nodes(asked.add_nodes)
        changes = PlannedChanges(
            apply=list(_contents(asked.files)) or None,
            delete=asked.delete,
            add_nodes=asked.add_nodes,
            drain=asked.drain,
            force=asked.force,
            taint=asked.taint,
            replicas=asked.replicas,
            namespace=asked.namespace,
        )
        found = simulate(self.state, changes, copies=asked.copies, seed=asked.seed, interruption=interruption)
        return found.to_dict(), _text(asked, partial(simulation_text, found, wide=asked.wide))

    def _refuse_unknown_nodes(self, add_nodes: Sequence[str]) -> None:
        """Refuse names that are neither a node nor a profile.

        The command takes a file, too; here it would be one of the machine of the engine, which is not the sender's.
        """
        for word in add_nodes:
            like = word.partition("=")[2]
            if like and self.state.get(Node, like) is None and like not in profile_names():
                raise InvalidInput(
                    f"addNodes {word!r}: there is no node {like!r} in {self.state.source}, and no profile; "
                    f"profiles are {', '.join(profile_names())}"
                )

    def _lint(self, asked: messages.Lint) -> _Result:
        found = lint(
            list(_contents(asked.files)),
            against=self.state if asked.against else None,
            release=asked.release,
            feature_gates=asked.feature_gates,
        )
        return found.to_dict(), _text(asked, partial(lint_text, found))

    def _match(self, asked: messages.Match, interruption: Interruption | None) -> _Result:
        found = match(self.state, asked.expression, driver=asked.driver, interruption=interruption)
        return found.to_dict(), _text(asked, partial(match_text, found, wide=asked.wide))

    def _usage(self, asked: messages.Usage) -> _Result:
        period = self._period(asked.since) if asked.since else None
        found = usage(self.state, by=asked.by, namespace=asked.namespace, period=period)
        return found.to_dict(), _text(asked, partial(usage_text, found))

    def _period(self, since: str) -> UsagePeriod:
        if self._history is None:
            raise InvalidInput("there is no history of the use of devices here (cathedra advisor --history)")
        try:
            seconds = UsagePeriod.seconds(since)
        except ValueError as error:
            raise InvalidInput(f"since {since[:40]!r} is no time such as 90m, 24h or 7d") from error
        now = self.state.now or time.time()
        return UsagePeriod(self._history.file, now - seconds, now, self._history.namespaces)

    # --- the CEL bench

    def _evaluate(self, asked: messages.Evaluate) -> _Result:
        expression = compiled_expression(asked.expression, self.state.features)
        found = messages.EvaluatedExpression(asked.expression, expression.type, expression.max_cost)
        if asked.device:
            device = self._bench().device(asked.device)
            outcome = expression.explain(device)
            found = msgspec.structs.replace(
                found,
                device=str(device),
                value="" if outcome.error is not None else value_text(outcome.value),
                error=outcome.error or "",
                parts=tuple(
                    messages.EvaluatedPart(
                        one.start,
                        one.end,
                        one.depth,
                        one.source,
                        "" if one.error else one.shown,
                        one.error or "",
                        one.reached,
                    )
                    for one in explained_parts(outcome)
                ),
            )
        return model_of(found), ""

    def _complete(self, asked: messages.Complete) -> _Result:
        found = self._bench().completions(asked.before)
        return model_of(messages.Completions(tuple(messages.Completion(*one) for one in found))), ""

    def _bench(self) -> ReplSession:
        """Return the devices and their names, which are collected once for each state."""
        state = self.state
        known = self._session
        if known is None or known[0] is not state:
            known = self._session = (state, ReplSession(state))
        return known[1]


def _without_gone(found: ClusterMap, left_out: Sequence[str]) -> ClusterMap:
    """Return the map without devices of which no slice is known, if slices were left out: the slice may be one of
    those, and the device would be shown as gone."""
    if not left_out:
        return found
    return msgspec.structs.replace(found, devices=tuple(one for one in found.devices if one.state != "gone"))


def _invalid(error: Exception, question: Question) -> AnswerError:
    cause = error.__cause__
    if not isinstance(cause, CompileError) or not cause.issues or not isinstance(question, _WITH_EXPRESSION):
        return AnswerError("invalid", str(error))
    line, column = cause.issues[0].position(question.expression)
    return AnswerError("invalid", str(error), max(line, 0), column)


def _contents(files: Sequence[SentFile]) -> Iterator[NamedContent]:
    for one in files:
        if (one.text is None) == (one.content is None):
            raise InvalidInput(f"{one.name}: a file has either text or content")
        yield NamedContent(one.name, one.content if one.content is not None else (one.text or "").encode())


def _text(asked: Question, made: Callable[[int], str]) -> str:
    """Return the text of an answer, in the columns that the question has; "" if it has none."""
    return made(min(asked.width, messages.WIDEST)) if asked.width > 0 else ""
