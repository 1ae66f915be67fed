"""Pods that wait for devices, and the answers on why. Equal pods share one answer.

An answer holds for one version of the model. Pods without an answer come first; old answers are renewed one after the
other, with the verdict alone: what would help is searched only when the reason has changed, because it costs several
times as much.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from cathedra.advisor.model import ClusterModel
from cathedra.advisor.sentences import answer_text, reason_text, shape_of
from cathedra.api.core.core_v1 import Pod, PodSpec
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import encode, replace
from cathedra.client.resources import PODS
from cathedra.clock import Clock
from cathedra.insight.explanation.afterfilters import refusal_of
from cathedra.insight.explanation.explainer import Explainer
from cathedra.insight.explanation.question import exceeded_quotas, with_claims
from cathedra.insight.explanation.report import Cause, Explanation
from cathedra.insight.reading.state import ClusterState
from cathedra.scheduler.judging import DEFAULT_SCHEDULER
from cathedra.semantics.owners import controller_of
from cathedra.semantics.pods import is_terminal, workload_labels

NOT_MADE: Final = "claims not made"
"""Kind of the cause that the controller has not made the pod's claims."""
UNEXPLAINED: Final = "unexplained"
"""Kind of the cause of a pod on which the analysis failed."""
MOST_SCHEDULERS: Final = 256
"""Schedulers whose last placement is remembered."""
SILENT: Final = frozenset(("scheduling gates", "being deleted", UNEXPLAINED))
"""Kinds of causes without an event: the pod's author has chosen them, or nothing is known."""

Key = tuple[object, ...]


class PodAnswer(msgspec.Struct, frozen=True):
    """The reason why pods wait, and what would help."""

    version: int
    """The version of the model for which it was found."""
    at: float
    """Monotonic time at which it was found. Seconds."""
    explanation: Explanation
    obstacle: str
    """Kind of the first cause; "" if the pods fit."""
    text: str
    """One sentence for people, with the smallest change that helps."""
    shape: str
    """The reason without its figures: equal for two answers that differ in nothing else."""

    @property
    def fits(self) -> bool:
        """Return True if the pods fit on some node."""
        return not self.obstacle

    def text_for(self, pod: Pod) -> str:
        """Return the sentence for one of the pods; remedies may name the pod for which they were tried."""
        tried = self.explanation.subject.removeprefix("pod ")
        own = f"{pod.metadata.namespace}/{pod.metadata.name}"
        return self.text if tried == own else re.sub(rf"{re.escape(tried)}(?![\w.-])", lambda _: own, self.text)


class WaitingPod(msgspec.Struct):
    """A pod that uses devices and has no node."""

    pod: Pod
    since: float
    """Wall-clock time of its creation."""
    spec_key: bytes
    """The spec of a pod without a controller; empty for others, which are equal to their siblings."""
    fits_since: float | None = None
    """Monotonic time since which the model places it; None: it does not."""


class WaitingPods:
    """The pods that wait, with their answers."""

    def __init__(self, model: ClusterModel, clock: Clock, on_change: Callable[[], None]) -> None:
        """``on_change`` is called when a pod begins or ends to wait."""
        self._model, self._clock, self._on_change = model, clock, on_change
        self.by_uid: dict[str, WaitingPod] = {}
        self.answers: dict[Key, PodAnswer] = {}
        self.placed_at: dict[str, float] = {}
        """Scheduler → monotonic time at which it last placed or refused a pod."""
        self.judged = 0
        """Number of analyses so far."""
        model.informers.of(PODS).add_handler(self._seen, self._changed, self._gone)

    # --- pods

    def _seen(self, pod: Pod) -> None:
        self._set(pod)

    def _changed(self, old: Pod, new: Pod) -> None:
        placed = not old.spec.node_name and bool(new.spec.node_name)
        if placed or refusal_of(old) != refusal_of(new):
            if len(self.placed_at) >= MOST_SCHEDULERS:
                # Any pod may name a scheduler of its own, so the names must not accumulate.
                self.placed_at.clear()
            self.placed_at[new.spec.scheduler_name or DEFAULT_SCHEDULER] = self._clock.monotonic()
        self._set(new)

    def _set(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.spec.node_name or is_terminal(pod):
            self._drop(uid)
            return
        known = self.by_uid.get(uid)
        if known is not None:
            if known.pod.spec != pod.spec:  # a waiting pod may get tolerations, and a gated one a node selector
                known.spec_key = _spec_key(pod)
            known.pod = pod
            return
        created = pod.metadata.creation_timestamp
        now = self._clock.now()
        since = min(now, created.timestamp) if created is not None else now
        self.by_uid[uid] = WaitingPod(pod, since, _spec_key(pod))
        self._on_change()

    def _gone(self, pod: Pod) -> None:
        self._drop(pod.metadata.uid)

    def _drop(self, uid: str) -> None:
        if self.by_uid.pop(uid, None) is not None:
            self._on_change()

    def waiting(self, moment: float) -> Iterator[WaitingPod]:
        """Yield the pods that use devices and wait for longer than ``moment`` seconds."""
        before = self._clock.now() - moment
        return (one for one in self.by_uid.values() if one.since <= before and self._model.uses_devices(one.pod))

    def next_due(self, moment: float) -> float:
        """Return the seconds until the next pod has waited for ``moment`` seconds; infinity if there is none."""
        before = self._clock.now() - moment
        return min((one.since - before for one in self.by_uid.values() if one.since > before), default=math.inf)

    def key_of(self, waiting: WaitingPod) -> Key:
        """Return a key that pods have in common if one answer is true for them."""
        pod = waiting.pod
        owner = controller_of(pod)
        claims = [self._claim(pod, one.resource_claim_name or "") for one in pod.status.resource_claim_statuses]
        made = tuple(one.name for one in pod.status.resource_claim_statuses)
        # A pod whose claim is allocated already is bound to the place of its devices.
        own = pod.metadata.uid if any(one is not None and one.status.allocation is not None for one in claims) else ""
        return (
            pod.metadata.namespace,
            owner.uid if owner is not None else waiting.spec_key,
            # Pods on a node may refuse others by their labels.
            tuple(sorted(workload_labels(pod).items())),
            # Its room on the nominated node is held for this pod alone.
            pod.status.nominated_node_name,
            pod.spec.scheduling_gates,
            pod.metadata.deletion_timestamp is not None,
            made,
            own,
        )

    def _claim(self, pod: Pod, name: str) -> ResourceClaim | None:
        found: ResourceClaim | None = self._model.store(ResourceClaim).get(pod.metadata.namespace, name)
        return found

    # --- answers

    def answer(self, waiting: WaitingPod) -> PodAnswer | None:
        """Return the newest answer for a pod, of whatever version of the model; None if there is none yet."""
        return self.answers.get(self.key_of(waiting))

    def judge(self, waiting: WaitingPod) -> PodAnswer:
        """Find the answer for a pod, and for all that are equal to it, at this moment."""
        key = self.key_of(waiting)
        known = self.answers.get(key)
        state = self._model.state()
        now = self._clock.monotonic()
        self.judged += 1
        if known is not None:
            verdict = self._explain(waiting.pod, state, Explainer(filters=(state, self._model.filters), remedies=_none))
            if shape_of(reason_text(verdict)) == known.shape:
                renewed = msgspec.structs.replace(known, version=self._model.version, at=now)
                if verdict.fits:
                    # The nodes on which it fits, which the alarm names, may be others.
                    renewed = msgspec.structs.replace(renewed, explanation=verdict)
                return self._keep(key, renewed)
        found = self._explain(waiting.pod, state, Explainer(filters=(state, self._model.filters)))
        obstacle = "" if found.fits else (found.causes[0].kind if found.causes else "unknown")
        text, shape = answer_text(found), shape_of(reason_text(found))
        return self._keep(key, PodAnswer(self._model.version, now, found, obstacle, text, shape))

    def give_up(self, waiting: WaitingPod) -> None:
        """Record that no answer could be found for a pod in this version of the model."""
        name = f"{waiting.pod.metadata.namespace}/{waiting.pod.metadata.name}"
        found = Explanation(f"pod {name}", "does not fit", "", (Cause(UNEXPLAINED, "no answer was found"),))
        self._keep(
            self.key_of(waiting), PodAnswer(self._model.version, self._clock.monotonic(), found, UNEXPLAINED, "", "")
        )

    def _keep(self, key: Key, answer: PodAnswer) -> PodAnswer:
        self.answers[key] = answer
        return answer

    def _explain(self, pod: Pod, state: ClusterState, explainer: Explainer) -> Explanation:
        subject = with_claims(pod, state)
        if not subject.made:
            return explainer.pod(pod, state)
        # The scheduler does not try the pod before its claims exist. With claims in memory alone, inventory and
        # ledger would have to be made anew.
        made = [one for name in subject.made if (one := subject.state.get(ResourceClaim, name, pod.metadata.namespace))]
        templates = sorted(
            entry.resource_claim_template_name or ""
            for entry in pod.spec.resource_claims
            if state.get(ResourceClaimTemplate, entry.resource_claim_template_name or "", pod.metadata.namespace)
        )
        text = f"no claim is made yet of template {', '.join(templates)}, which the resourceclaim controller does"
        quotas = [Cause("quota", f"no claim can be made: {one}") for one in exceeded_quotas(None, made, state)]
        causes = (*quotas, Cause(NOT_MADE, text))
        return Explanation(
            f"pod {subject.name}", "does not fit", causes[0].text, causes, nodes=len(state.nodes), notes=state.notes
        )

    def forget_others(self) -> None:
        """Drop the answers that no pod uses any longer."""
        used = {self.key_of(one) for one in self.by_uid.values()}
        for key in self.answers.keys() - used:
            del self.answers[key]


def _spec_key(pod: Pod) -> bytes:
    return b"" if controller_of(pod) is not None else encode(_without_tokens(pod.spec))


def _without_tokens(spec: PodSpec) -> PodSpec:
    """Leave out the volume with the service account's token: its name differs between pods that are equal otherwise."""
    return replace(
        spec,
        volumes=tuple(one for one in spec.volumes if one.projected is None),
        **{
            kind: tuple(replace(one, volume_mounts=()) for one in getattr(spec, kind))
            for kind in ("containers", "init_containers")
        },
    )


def _none(*_: object) -> tuple[()]:
    return ()
