"""Alarm: pods that the model places and the scheduler does not.

The model can be wrong: it does not know extenders, plugins of other projects, rules of other schedulers, or feature
gates that cannot be read. Each alarm therefore names what was assumed and what could not be known, and the log has the
question for replay.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from cathedra.advisor.model import ClusterModel
from cathedra.advisor.pods import PodAnswer, WaitingPod, WaitingPods
from cathedra.api.core.core_v1 import Pod
from cathedra.clock import Clock
from cathedra.insight.explanation.afterfilters import NOT_TRIED, refusal_of
from cathedra.insight.reading.questions import question_of
from cathedra.insight.reading.state import ASSUMED
from cathedra.insight.rendering import names_text
from cathedra.scheduler.judging import DEFAULT_SCHEDULER

_LOG: Final = logging.getLogger(__name__)
REFUSED: Final = "refused"
UNSEEN: Final = "unseen"
"""Reasons why the scheduler has not placed a pod: it refused the pod, or did not report on it at all."""
FRESH_SECONDS: Final = 5.0
"""Age up to which an answer is taken for true, while the cluster changes."""
JUDGED: Final = 1
"""Maximum number of older answers that are recomputed in one round, during which no change is applied."""
LOGGED: Final = 3
"""Questions that are logged in one round; the others follow in the next ones."""
MOST_LOGGED: Final = 4096
"""Pods whose question has been logged, which is done once."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Times that a scheduler has before there is an alarm. Seconds."""

    refused: float = 30.0
    """Since the model places a pod that the scheduler has refused; its back-off is ten seconds at most."""
    unseen: float = 3.0
    """Since the creation of a pod that it has not reported on, unless it is placing others meanwhile."""


class Disagreement(msgspec.Struct, frozen=True):
    """A pod that would fit."""

    pod: Pod
    node: str
    kind: str
    """Either `REFUSED` or `UNSEEN`."""
    text: str

    @property
    def scheduler(self) -> str:
        """Return the name of the scheduler that decides on the pod."""
        return self.pod.spec.scheduler_name or DEFAULT_SCHEDULER


class Alarm:
    """Finds the disagreements of this moment."""

    def __init__(self, model: ClusterModel, pods: WaitingPods, clock: Clock, bounds: Bounds) -> None:
        self._model, self._pods, self._clock, self._bounds = model, pods, clock, bounds
        self.current: tuple[Disagreement, ...] = ()
        """As of the last `renew`."""
        self._logged: dict[str, None] = {}

    def counts(self) -> Counter[tuple[str, str]]:
        """Return (scheduler, kind) → pods that would fit."""
        return Counter((one.scheduler, one.kind) for one in self.current)

    def renew(self, moment: float) -> tuple[Disagreement, ...]:
        """Compare the model's answers with the scheduler's reports on pods that wait longer than ``moment``."""
        self.current = tuple(self._disagreements(moment))
        new = (one for one in self.current if one.pod.metadata.uid not in self._logged)
        for one in islice(new, LOGGED):
            self._log(one)
        return self.current

    def _disagreements(self, moment: float) -> Iterator[Disagreement]:
        now, judged = self._clock.monotonic(), 0
        before = {one.pod.metadata.uid: one for one in self.current}
        for waiting in list(self._pods.waiting(moment)):
            answer = self._pods.answer(waiting)
            if answer is None or not answer.fits or waiting.pod.status.nominated_node_name:
                waiting.fits_since = None
                continue
            if waiting.fits_since is None:
                waiting.fits_since = now
            kind = self._kind(waiting, now)
            if not kind:
                continue
            # Before anything is claimed: the answer must be true for this moment.
            if answer.version != self._model.version and now - answer.at > FRESH_SECONDS:
                if judged >= JUDGED:
                    if waiting.pod.metadata.uid in before:
                        yield before[waiting.pod.metadata.uid]
                    continue
                judged += 1
                answer = self._pods.judge(waiting)
                if not answer.fits:
                    waiting.fits_since = None
                    continue
            node = answer.explanation.fits_on[0]
            yield Disagreement(waiting.pod, node, kind, self._text(waiting, answer, kind))

    def _kind(self, waiting: WaitingPod, now: float) -> str:
        """Return the kind of disagreement on a pod that fits; "" if the scheduler still has time."""
        fits = now - (now if waiting.fits_since is None else waiting.fits_since)
        if refusal_of(waiting.pod) is not None:
            return REFUSED if fits >= self._bounds.refused else ""
        active = self._pods.placed_at.get(waiting.pod.spec.scheduler_name or DEFAULT_SCHEDULER)
        # A scheduler that places other pods has a backlog, and will come to this one.
        if active is not None and now - active < self._bounds.refused:
            return UNSEEN if fits >= self._bounds.refused else ""
        return UNSEEN if self._clock.now() - waiting.since >= self._bounds.unseen else ""

    def _text(self, waiting: WaitingPod, answer: PodAnswer, kind: str) -> str:
        pod = waiting.pod
        scheduler = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        since = round(self._clock.now() - waiting.since)
        fits = answer.explanation.fits_on
        where = f"node {fits[0]}" if len(fits) == 1 else f"node {fits[0]} and {len(fits) - 1:,} more"
        refusal = refusal_of(pod)
        said = f"the scheduler {scheduler} has not reported on it"
        if kind == REFUSED and refusal is not None:
            said = f"the scheduler {scheduler} refuses it: {_short(refusal.message or refusal.reason)}"
        alone = any((one.resource, one.problem) == NOT_TRIED for one in answer.explanation.notes)
        assumed = self._assumptions(scheduler, alone=alone)
        return f"the pod waits for {since} s and fits on {where}, but {said}. {assumed}"

    def _assumptions(self, scheduler: str, *, alone: bool) -> str:
        """Return what was assumed and what is not known; ``alone``: the pod's gang was not tried."""
        gates = self._model.gates
        assumed = [note.text for note in self._model.state().notes if note.problem == ASSUMED]
        known = f"Kubernetes {gates.release} with the feature gates that the server reports"
        basis = assumed[0].removeprefix("assumed: ") if assumed else known
        unknown = ["extenders", "plugins and configuration of the scheduler"]
        if scheduler != DEFAULT_SCHEDULER:
            unknown.insert(0, f"the rules of {scheduler}")
        if alone:
            unknown.insert(0, "whether the pods of its gang fit together")
        return f"Assumed: {basis}. Not known: {names_text(tuple(unknown))}"

    def _log(self, one: Disagreement) -> None:
        uid = one.pod.metadata.uid
        if len(self._logged) >= MOST_LOGGED:
            del self._logged[next(iter(self._logged))]
        self._logged[uid] = None
        question = question_of(one.pod, one.node, self._model.state())
        _LOG.warning("pod %s: %s; for kubectl dra simulate --replay: %s", question.pod, one.text, question.to_line())


def _short(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
