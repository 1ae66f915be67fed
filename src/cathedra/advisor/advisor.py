"""The advisor: follows a cluster, explains what waits, and compares its answers with the scheduler's.

Three loops run beside the informers. The first answers pods: new ones at once, old answers within a share of the
processor. The second examines claims, classes, pools, drivers and nodes, and raises the alarm. The third writes events.
Whatever is long is computed in the thread of `ModelTurns`: the event loop goes on, and the model does not change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from cathedra.advisor.alarm import Alarm, Bounds
from cathedra.advisor.capacity import ClassCapacity
from cathedra.advisor.devices import DeviceFigures
from cathedra.advisor.events import COMPONENT, EXPLAINED, WOULD_FIT, AdvisorEvents
from cathedra.advisor.findings import AdvisorFindings
from cathedra.advisor.gangs import GangCapacity
from cathedra.advisor.model import ClusterModel
from cathedra.advisor.pods import SILENT, PodAnswer, WaitingPod, WaitingPods
from cathedra.advisor.usage import UsageTracker
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import InformerObserver
from cathedra.client.workqueue import one_of_many
from cathedra.clock import Clock
from cathedra.insight.inventory.history import DAYS, HistoryWriter
from cathedra.insight.reading.live import ServerFeatures
from cathedra.insight.reading.state import ClusterState

_LOG: Final = logging.getLogger(__name__)
SHARE: Final = 0.15
"""Share of a processor for renewing old answers."""
TURN_SECONDS: Final = 0.2
"""Time for which changes are gathered before pods are judged again."""
SHORTEST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
"""Bounds of the time between two examinations of the pods, while nothing changes. Seconds."""
ROUND_SECONDS: Final = 1.0
"""Time between two comparisons with the scheduler."""
FINDING_SECONDS: Final = 10.0
"""Time between two rounds of findings."""
POOLS_AT_ONCE: Final = 250
"""Pools that are counted in one turn."""
AGGREGATED: Final = 256
"""Events that are remembered for aggregation."""
WAIT_LOGGED: Final = 30.0
"""Seconds after which kinds that cannot be listed are named in the log."""


class AdvisorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an advisor."""

    events: bool = True
    namespace: str = ""
    """Namespace whose pods and claims are explained; "": all."""
    events_per_minute: int = 300
    moment: float = 1.0
    """Seconds that a pod waits before it is explained."""
    bounds: Bounds = msgspec.field(default_factory=Bounds)
    history: Path | None = None
    """File in which holdings of devices are kept; None: nowhere."""
    history_days: float = DAYS


class Advisor:
    """An advisor for one cluster. It writes nothing but events."""

    def __init__(
        self,
        client: Client,
        features: ServerFeatures,
        *,
        source: str,
        clock: Clock,
        options: AdvisorOptions,
        observer: InformerObserver | None = None,
    ) -> None:
        """``source`` names the server in texts; ``observer`` counts objects that cannot be read."""
        self._clock, self._options = clock, options
        self._awake = asyncio.Event()
        self.model = ClusterModel(client, features, source, observer)
        self.pods = WaitingPods(self.model, clock, self._awake.set)
        self.figures = DeviceFigures(self.model)
        self.capacity = ClassCapacity(self.model, self.figures)
        self.gangs = GangCapacity(self.model, clock)
        self.usage = UsageTracker(self.model, clock)
        self.findings = AdvisorFindings(self.model, self.figures, clock)
        self.alarm = Alarm(self.model, self.pods, clock, options.bounds)
        # `AdvisorEvents` writes each reason once for an object, so there is little to aggregate.
        self._recorder = EventRecorder(client, COMPONENT, clock, remembered=AGGREGATED)
        self.events = AdvisorEvents(
            self._recorder,
            self.model.informers,
            clock,
            per_minute=options.events_per_minute,
            enabled=options.events,
        )
        self.model.listen(self._awake.set)
        self.model.informer(Pod).add_handler(on_delete=lambda pod: self.events.forget(pod.metadata.uid))
        self.ready = False
        """True once all kinds have been listed."""
        self._spent = 0.0
        """Seconds of computing ahead of the share that renewals may have."""
        self._spent_at = clock.monotonic()

    async def run(self) -> None:
        """Follow the cluster and advise until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.model.informers.run())
                group.create_task(self._recorder.run())
                await self._wait_synced()
                self.ready = True
                group.create_task(self._answer_pods())
                group.create_task(self._compare())
                group.create_task(self._find())
                if self._options.history is not None:
                    group.create_task(self._keep_history(self._options.history))
        finally:
            self.model.turns.close()

    async def _keep_history(self, path: Path) -> None:
        """Keep holdings in a file until cancelled.

        Raises:
            InvalidInput: it cannot be written, or is no such file.
        """
        # After the first lists: what is not held any more is closed when the file is opened.
        writer = HistoryWriter(path, self._clock, days=self._options.history_days)
        try:
            self.usage.listen(writer)
            await asyncio.get_running_loop().create_future()
        finally:
            self.usage.unlisten(writer)
            writer.close()

    async def _wait_synced(self) -> None:
        synced = asyncio.ensure_future(self.model.wait_synced())
        try:
            while not (await asyncio.wait((synced,), timeout=WAIT_LOGGED))[0]:
                _LOG.warning("not listed yet: %s", ", ".join(self.model.informers.unlisted()))
                # A right that is missing, on jobs for example, must not keep pods from being explained.
                if self.model.has_essentials():
                    return
        finally:
            synced.cancel()

    # --- for answers to users

    @property
    def version(self) -> int:
        """Number that grows with the changes of the cluster."""
        return self.model.version

    @property
    def history(self) -> Path | None:
        """The file in which the use of devices is kept."""
        return self._options.history

    def snapshot(self) -> ClusterState | None:
        """Return the state of this moment, which does not change; None before the first lists."""
        return self.model.snapshot() if self.ready else None

    def still(self) -> AbstractAsyncContextManager[None]:
        """Keep the thread of the model from computing while the body of the context runs."""
        return self.model.turns.still()

    def statistics(self) -> Mapping[str, int]:
        """Return the numbers of pods that wait, of answers, of remembered events, and of analyses so far."""
        return {
            "waiting": len(self.pods.by_uid),
            "answers": len(self.pods.answers),
            "events": self.events.remembered,
            "judged": self.pods.judged,
        }

    def obstacles(self) -> Iterator[str]:
        """Yield the first obstacle of each pod that waits; "" for those that fit."""
        for waiting in self._waiting():
            answer = self.pods.answer(waiting)
            if answer is not None:
                yield answer.obstacle

    # --- pods

    async def _answer_pods(self) -> None:
        while True:
            self._awake.clear()
            if await self._answer_one():
                # Changes that have waited for the thread have their turn between two analyses.
                await self._clock.sleep(0)
                continue
            self.pods.forget_others()
            try:
                async with asyncio.timeout(max(self._pause(), SHORTEST_PAUSE)):
                    await self._awake.wait()
            except TimeoutError:
                continue
            # Changes come in crowds: one turn for all of them.
            await self._clock.sleep(TURN_SECONDS)

    async def _answer_one(self) -> bool:
        """Answer the most urgent pod: one without an answer, else one with the oldest. Return False if none is due."""
        oldest: tuple[float, WaitingPod] | None = None
        for waiting in self._waiting():
            answer = self.pods.answer(waiting)
            if answer is None:
                await self._judge(waiting)
                return True
            self._report(waiting, answer)
            if answer.version != self.model.version and (oldest is None or answer.at < oldest[0]):
                oldest = (answer.at, waiting)
        # Nothing is renewed that a new pod would have to wait for.
        if oldest is None or self._overspent() > 0 or self.pods.next_due(self._options.moment) < 2 * TURN_SECONDS:
            return False
        await self._judge(oldest[1])
        return True

    def _waiting(self) -> list[WaitingPod]:
        namespace = self._options.namespace
        return [
            one
            for one in self.pods.waiting(self._options.moment)
            if not namespace or one.pod.metadata.namespace == namespace
        ]

    async def _judge(self, waiting: WaitingPod) -> None:
        answer, seconds = await self.model.turns.run(lambda: self._judged(waiting))
        if answer is not None and waiting.pod.metadata.uid in self.pods.by_uid:
            self._report(waiting, answer)
        self._overspent()
        self._spent += seconds

    def _judged(self, waiting: WaitingPod) -> tuple[PodAnswer | None, float]:
        """Return the answer for a pod, and the seconds that it took; called in the thread."""
        begun = self._clock.monotonic()
        answer = None
        try:
            answer = self.pods.judge(waiting)
        except Exception:
            # One odd pod must not keep the others from being answered, and is not tried again before something changes.
            _LOG.exception("pod %s/%s", waiting.pod.metadata.namespace, waiting.pod.metadata.name)
            self.pods.give_up(waiting)
        return answer, self._clock.monotonic() - begun

    def _report(self, waiting: WaitingPod, answer: PodAnswer) -> None:
        if not answer.fits and answer.obstacle not in SILENT:
            self.events.report(waiting.pod, EXPLAINED, answer.text_for(waiting.pod))

    def _overspent(self) -> float:
        """Return the seconds of computing that are to be made up for by waiting."""
        now = self._clock.monotonic()
        self._spent = max(0.0, self._spent - (now - self._spent_at) * SHARE)
        self._spent_at = now
        return self._spent

    def _pause(self) -> float:
        """Return the seconds until something may be due: a pod that has waited a moment, or the share of time."""
        return min(self.pods.next_due(self._options.moment), LONGEST_PAUSE, self._spent / SHARE or LONGEST_PAUSE)

    # --- everything else

    async def _compare(self) -> None:
        renew = partial(self.alarm.renew, self._options.moment)
        while True:
            with one_of_many(_LOG, "comparison with the scheduler"):
                for one in await self.model.turns.run(renew):
                    if self._concerns(one.pod):
                        self.events.report(one.pod, WOULD_FIT, one.text)
            await self._clock.sleep(ROUND_SECONDS)

    async def _find(self) -> None:
        run, refresh = self.model.turns.run, partial(self.figures.refresh, POOLS_AT_ONCE)
        while True:
            while not await run(refresh):
                await self._clock.sleep(0)
            with one_of_many(_LOG, "capacity"):
                await run(self.capacity.renew)
            with one_of_many(_LOG, "gangs"):
                await run(self.gangs.renew)
            with one_of_many(_LOG, "findings"):
                await run(self.findings.renew)
                for one in self.findings.lasting:
                    if self._concerns(one.about):
                        self.events.report(one.about, EXPLAINED, one.text)
            await self._clock.sleep(FINDING_SECONDS)

    def _concerns(self, one: KubeObject) -> bool:
        chosen, namespace = self._options.namespace, one.metadata.namespace
        return not chosen or namespace in ("", chosen)
