"""Invariants of the advisor: its verdicts, its events, and its memory."""

from __future__ import annotations

from typing import Any

from cathedra.advisor.events import COMPONENT, WOULD_FIT
from cathedra.advisor.sentences import shape_of
from cathedra.client.transport import APICall
from cathedra.faultsim.invariant import LONG_CALM_SECONDS, Invariant
from cathedra.faultsim.observation import Chronicle, RecordedWrite


class AdvisorAgrees(Invariant):
    """Verdicts of the advisor."""

    sentence = (
        "While there is no fault, the advisor never takes a pod for one that fits while the scheduler refuses it."
    )

    def acknowledged(self, call: APICall, result: Any) -> None:
        """Look for an alarm."""
        alarm = call.ref.resource == "events" and call.verb == "create" and result.reason == WOULD_FIT
        if alarm and not self.chronicle.rivals and self.chronicle.is_calm(LONG_CALM_SECONDS):
            raise self.broken(f"{result.involved_object.name}: {result.message}")

    def settled(self) -> None:
        """Compare the verdicts on all pods that wait."""
        advisor = self.chronicle.advisor
        if advisor is not None and "" in advisor.obstacles():
            raise self.broken("a pod that waits would fit, it finds")


class AdvisorWritesOnce(Invariant):
    """Events of the advisor."""

    sentence = "The advisor does not repeat its last event on an object while that is stored, after a restart neither."

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(chronicle)
        self._last: dict[tuple[str, str], tuple[str, str]] = {}
        """UID of an object and reason → shape of the last event's message, and its name."""

    def written(self, change: RecordedWrite) -> None:
        """Compare a new event with the last one of its object and reason."""
        event = change.new or change.old
        if change.plural != "events" or event is None or event.reporting_component != COMPONENT:
            return
        key, last = (event.involved_object.uid, event.reason), (shape_of(event.message), change.name[1])
        # An event has expired on the server. If its object still waits, the advisor writes it again.
        if change.new is None:
            if self._last.get(key) == last:
                del self._last[key]
            return
        # A later message, or a repetition, may be written into an event that is there.
        if change.old is not None and change.old.count == event.count:
            return
        if self._last.get(key, ("", ""))[0] == last[0]:
            raise self.broken(f"{event.involved_object.name} has two events {event.reason}: {event.message}")
        self._last[key] = last


class AdvisorForgets(Invariant):
    """Memory of the advisor."""

    sentence = "The advisor remembers no pod that has gone, and no more events than are stored."

    def emptied(self) -> None:
        """Compare its figures with what there is."""
        advisor = self.chronicle.advisor
        if advisor is None:
            return
        figures = advisor.statistics()
        if figures["waiting"] or figures["answers"]:
            raise self.broken(f"without any pods it has {figures}")
        stored = self.state.counts.get(self.chronicle.prefix_of("", "events"), 0)
        if figures["events"] > stored:
            raise self.broken(f"of {stored} events that are stored it remembers {figures['events']}")
