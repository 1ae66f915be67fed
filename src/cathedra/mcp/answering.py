"""Answers for users of a followed cluster: each from the state that the user may see, within limits.

Questions are answered from a copy of the followed state, outside of the event loop, so health, metrics and watches are
served meanwhile: in a process if the system has forks, otherwise in a thread. Answers within a short time share one
copy. In a thread, users with equal rights also share the results computed from it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.scheme import GroupResource
from cathedra.api.status import bad_request, failure, internal_error, not_found, timeout, too_many_requests
from cathedra.client.client import Client
from cathedra.clock import Clock
from cathedra.engine import Engine, Limits, Question, UsageHistory, messages
from cathedra.engine.messages import AnswerError
from cathedra.insight.explanation.explain import KINDS
from cathedra.insight.reading.state import ClusterState, read_kind
from cathedra.mcp.rights import BASIS, Access, ReaderRights, Visibility, visible_state
from cathedra.mcp.tools import MOST_CHARACTERS, short_answer
from cathedra.offload import ComputationLost, Compute, ComputeProcess, ComputeThread, DeadlineExceeded, Interruption

SNAPSHOT_SECONDS: Final = 2.0
"""Age up to which a copy of the state is used while the cluster changes."""
_KEPT_SECONDS: Final = 60.0
"""Seconds after the last question after which the copy is dropped, to free its memory and that of the results computed
from it."""
_MOST_ENGINES: Final = 4
"""Different views of one copy that are kept."""
_UNLIMITED: Final = Limits(characters=0)
"""A search for long strings in an answer of 16 MiB holds the interpreter for 0.3 s, and the event loop with it."""
_MOST_USERS: Final = 4096
"""Users whose rate is recorded; the user without a question for the longest time is forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimits:
    """Limits of questions and their answers."""

    seconds: float = 30.0
    """Longest computation of an answer."""
    waiting: int = 16
    """Questions of all users that are being computed or wait."""
    waiting_per_user: int = 4
    per_minute: int = 60
    """Questions of one user in a minute."""


class StateSource(Protocol):
    """A part that follows a cluster."""

    @property
    def version(self) -> int:
        """Number that increases with every change of the cluster."""

    @property
    def history(self) -> Path | None:
        """The file in which the use of devices is kept."""

    def snapshot(self) -> ClusterState | None:
        """Return a state that does not change; None if the cluster has not been read."""

    def still(self) -> AbstractAsyncContextManager[None]:
        """Keep the threads of the source from computing while the body of the context runs."""


def compute_beside(source: StateSource) -> Compute:
    """Return the executor of computations outside of the event loop. Forks beside threads are safe on Linux only."""
    return ComputeProcess(source.still) if sys.platform == "linux" else ComputeThread()


class UserAnswers:
    """Answers questions of users, each within the user's rights."""

    def __init__(
        self,
        source: StateSource,
        client: Client,
        clock: Clock,
        limits: AnswerLimits | None = None,
        compute: Compute | None = None,
    ) -> None:
        """``client`` requests the reviews of rights; without ``compute`` answers are computed in a thread."""
        self._source, self._clock = source, clock
        self._limits = limits or AnswerLimits()
        self._rights = ReaderRights(client, clock)
        self._compute = compute or ComputeThread()
        self._secret = secrets.token_bytes(32)
        self._copy: _Copy | None = None
        self._forgetting: asyncio.TimerHandle | None = None
        self._waiting: Counter[str] = Counter()
        self._rates: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """User → questions that are left, and the monotonic time of that number."""

    def close(self) -> None:
        """End the thread of computations when it is idle."""
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._compute.close()

    async def answer(self, user: UserInfo, question: Question, most: int = MOST_CHARACTERS) -> str:
        """Answer a question with JSON of at most ``most`` characters; 0: in full.

        Raises:
            StatusError: 400, it cannot be answered; 403, a right is missing; 404, there is no such object; 429, the
                user, or all users, have too many questions; 503, the cluster has not been read; 504, it takes too long.
            ConnectionError: the API server does not answer.
        """
        self._take(user.username)
        with self._seat(user.username):
            return await self._answered(user, question, most)

    async def _answered(self, user: UserInfo, question: Question, most: int) -> str:
        copy = self._fresh_copy()
        if isinstance(question, messages.Lint) and not question.against:
            visibility, state = Visibility(frozenset()), ClusterState.of((), copy.state.source, gates=copy.state.gates)
        else:
            state = copy.state
            await self._rights.require(user, _needed(question, state))
            visibility = await self._rights.visibility(user, state, _namespaces(question))
        _require_subject(question, state)

        def work(interruption: Interruption) -> str | AnswerError:
            found = self._engine(copy, state, visibility).answer(question, interruption)
            # Here and not on the event loop: the model of an answer about 40,000 devices has 16 MiB.
            return found.error or short_answer(found, most=most).text

        try:
            found = await self._compute.run(work, seconds=self._limits.seconds, owner=user.username)
        except DeadlineExceeded as error:
            raise timeout(f"the answer takes longer than {self._limits.seconds:g} s: ask for less") from error
        except ComputationLost as error:
            raise internal_error(f"{error}: ask for less") from error
        if isinstance(found, AnswerError):
            raise internal_error(found.text) if found.reason == "internal" else bad_request(found.text)
        return found

    # --- the state

    def _fresh_copy(self) -> _Copy:
        now, version = self._clock.monotonic(), self._source.version
        copy = self._copy
        if copy is None or (copy.version != version and now - copy.at > SNAPSHOT_SECONDS):
            state = self._source.snapshot()
            if state is None:
                raise failure(
                    503, "ServiceUnavailable", "the cluster has not been read yet, or another replica leads: try again"
                )
            copy = self._copy = _Copy(state, version, now)
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget)
        return copy

    def _forget(self) -> None:
        self._copy = None

    def _engine(self, copy: _Copy, state: ClusterState, visibility: Visibility) -> Engine:
        """Return the engine over the objects that a user may see. Called outside of the event loop, by one computation
        at a time."""
        key = (id(state) if state is not copy.state else 0, visibility.key)
        engine = copy.engines.get(key)
        if engine is None:
            while len(copy.engines) >= _MOST_ENGINES:
                copy.engines.popitem(last=False)
            history = self._source.history
            kept = None if history is None else UsageHistory(history, visibility.namespaces)
            engine = Engine(visible_state(state, visibility, self._secret), _UNLIMITED, kept)
            if state is copy.state:
                copy.engines[key] = engine
        return engine

    # --- limits

    def _take(self, user: str) -> None:
        """Count a question against the rate of a user: a bucket that holds the questions of a minute."""
        most, now = float(self._limits.per_minute), self._clock.monotonic()
        left, at = self._rates.pop(user, (most, now))
        left = min(most, left + (now - at) * most / 60)
        if len(self._rates) >= _MOST_USERS:
            self._rates.popitem(last=False)
        if left < 1:
            self._rates[user] = (left, now)
            seconds = max(1, round((1 - left) * 60 / most))
            raise too_many_requests(f"more than {self._limits.per_minute} questions in a minute", seconds)
        self._rates[user] = (left - 1, now)

    @contextmanager
    def _seat(self, user: str) -> Iterator[None]:
        if self._waiting.total() >= self._limits.waiting or self._waiting[user] >= self._limits.waiting_per_user:
            raise too_many_requests("too many questions wait for their answers", 1)
        self._waiting[user] += 1
        try:
            yield
        finally:
            self._waiting[user] -= 1
            if not self._waiting[user]:
                del self._waiting[user]


@dataclass(slots=True)
class _Copy:
    """A copy of the state, and the engines over the parts that users may see."""

    state: ClusterState
    version: int
    at: float
    """Monotonic time at which it was made."""
    engines: OrderedDict[object, Engine] = dataclasses.field(default_factory=OrderedDict)


def _needed(question: Question, state: ClusterState) -> Iterator[Access]:
    """Yield the rights without which a question is refused."""
    for namespace in _namespaces(question):
        # Before the kinds of the cluster: the error names the namespace if the user has no rights on it.
        yield from (Access(kind, namespace) for kind in (Pod, ResourceClaim))
    if isinstance(question, messages.Explain) and question.subject:
        kind = _subject(question.subject)[0]
        if kind not in (Pod, ResourceClaim):
            yield Access(kind, question.namespace or "default")
    if isinstance(question, messages.Usage) and question.namespace:
        return  # computed from the claims of the namespace alone
    yield from (Access(kind) for kind in BASIS if kind in state.objects)


def _namespaces(question: Question) -> tuple[str, ...]:
    """Return the namespaces that a question names."""
    match question:
        case messages.Explain():
            named = question.subject or question.files
            return (
                (question.namespace or "default",) if named else ((question.namespace,) if question.namespace else ())
            )
        case messages.Usage():
            return (question.namespace,) if question.namespace else ()
        case messages.Simulate():
            names_objects = question.files or question.delete or question.replicas
            return (question.namespace,) if names_objects else ()
    return ()


def _subject(subject: str) -> tuple[type, str]:
    word, slash, name = subject.partition("/")
    kind = KINDS.get(word.lower().partition(".")[0]) if slash else Pod
    if kind is None:
        raise bad_request(f"{subject[:80]!r} is not of the form KIND/NAME; kinds are {', '.join(sorted(set(KINDS)))}")
    return kind, name if slash else subject


def _require_subject(question: Question, state: ClusterState) -> None:
    """Check that the subject exists. Its namespace is one that the user may list.

    Raises:
        StatusError: 404, it does not.
    """
    if not isinstance(question, messages.Explain) or not question.subject:
        return
    kind, name = _subject(question.subject)
    if state.get(kind, name, question.namespace or "default") is None:
        ref = read_kind(kind).ref
        raise not_found(GroupResource(ref.group, ref.resource), name)
