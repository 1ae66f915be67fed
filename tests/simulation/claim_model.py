"""A small model of reserve, allocate, prepare, unprepare and free, explored to the end.

Three pods with a claim each want two devices; two schedulers lead in turn; one node agent stops and starts. A state has
what the API server, the leading scheduler (its cache and its decisions on the way), the agent's checkpoint and the
driver know. States that differ in the names of pods or devices alone are one state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Final, NamedTuple

__all__ = ["ALL_GUARDS", "Explored", "Guards", "PodState", "State", "Violation", "explore", "shown"]

PODS: Final = 3
DEVICES: Final = 2
NONE: Final = -1


class PodState(NamedTuple):
    """One pod with its claim. Devices are numbers; -1 is none."""

    phase: str = "waiting"
    """As the API server has it: waiting, bound, running, over or gone."""
    device: int = NONE
    """Of the claim's allocation."""
    reserved: bool = False
    decided: int = NONE
    """The leading scheduler's decision that is not written yet."""
    seen: int = NONE
    """The allocation in the leading scheduler's cache."""
    noted: bool = False
    """The claim is in the agent's checkpoint."""
    prepared: int = NONE
    """Devices that the driver has prepared for the claim."""
    runs: bool = False
    """The container runs."""


class State(NamedTuple):
    """All pods, and whether the agent runs."""

    pods: tuple[PodState, ...] = (PodState(),) * PODS
    agent: bool = True


@dataclass(frozen=True)
class Guards:
    """Guards against the known races. Each can be removed."""

    assume_before_forget: bool = True
    """A written allocation is in the scheduler's cache before its decision is forgotten. Otherwise the device looks
    free until the event arrives."""
    refuse_held_device: bool = True
    """A driver refuses to prepare a device that it still has ready for another claim. After a forced deletion the
    new claim's prepare can arrive before the old claim's unprepare."""


ALL_GUARDS: Final = Guards()


@dataclass(frozen=True)
class Violation:
    """An invariant that a state breaks, and the actions that lead there."""

    invariant: str
    actions: tuple[str, ...]


@dataclass(frozen=True)
class Explored:
    """Every state that can be reached, without names; and the first violation."""

    states: frozenset[State]
    violation: Violation | None
    stuck: frozenset[State]
    """States from which the end, with every device free and nothing prepared, cannot be reached."""

    def shown(self) -> frozenset[tuple[tuple[str, int, bool], ...]]:
        """The states as users of the API see them."""
        return frozenset(shown([(pod.phase, pod.device, pod.reserved) for pod in state.pods]) for state in self.states)


def shown(pods: list[tuple[str, int, bool]]) -> tuple[tuple[str, int, bool], ...]:
    """Phase, device and reservation of all pods, without names."""
    return min(
        tuple(sorted((phase, names[device] if device != NONE else NONE, held) for phase, device, held in pods))
        for names in permutations(range(DEVICES))
    )


def _without_names(state: State) -> State:
    if all(pod.device == pod.decided == pod.seen == pod.prepared == NONE for pod in state.pods):
        return State(tuple(sorted(state.pods)), state.agent)

    def renamed(names: tuple[int, ...]) -> tuple[PodState, ...]:
        def of(device: int) -> int:
            return device if device == NONE else names[device]

        return tuple(
            sorted(
                pod._replace(
                    device=of(pod.device), decided=of(pod.decided), seen=of(pod.seen), prepared=of(pod.prepared)
                )
                for pod in state.pods
            )
        )

    return State(min(renamed(names) for names in permutations(range(DEVICES))), state.agent)


def explore(guards: Guards = ALL_GUARDS) -> Explored:
    """Visit every state, the nearest first; stop at the first violation."""
    first = State()
    came: dict[State, tuple[State, str] | None] = {first: None}
    before: dict[State, set[State]] = {first: set()}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        broken = _broken(state)
        if broken:
            return Explored(frozenset(came), Violation(broken, _way(came, state)), frozenset())
        for action, following in _actions(state, guards):
            after = _without_names(following)
            before.setdefault(after, set()).add(state)
            if after not in came:
                came[after] = state, action
                waiting.append(after)
    return Explored(frozenset(came), None, frozenset(came) - _leading(before, [s for s in came if _is_end(s)]))


def _way(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    actions: list[str] = []
    while (step := came[state]) is not None:
        state, action = step
        actions.append(action)
    return tuple(reversed(actions))


def _leading(before: dict[State, set[State]], ends: list[State]) -> set[State]:
    found, waiting = set(ends), list(ends)
    while waiting:
        for state in before[waiting.pop()] - found:
            found.add(state)
            waiting.append(state)
    return found


def _is_end(state: State) -> bool:
    return all(pod == PodState("gone") for pod in state.pods)


def _broken(state: State) -> str:
    held = [pod.device for pod in state.pods if pod.device != NONE]
    if len(held) != len(set(held)):
        return "DevicesAreHeldOnce"
    ready = [pod.prepared for pod in state.pods if pod.prepared != NONE]
    if len(ready) != len(set(ready)):
        return "PreparedDevicesDoNotOverlap"
    for pod in state.pods:
        if pod.prepared != NONE and not pod.noted:
            return "CheckpointsCoverPreparedClaims"
        if pod.runs and (pod.prepared == NONE or (pod.phase != "gone" and pod.device != pod.prepared)):
            return "ContainersHaveTheirClaims"
    return ""


def _actions(state: State, guards: Guards) -> Iterator[tuple[str, State]]:
    yield ("the agent stops" if state.agent else "the agent starts"), state._replace(agent=not state.agent)
    taken = tuple(pod._replace(decided=NONE, seen=pod.device) for pod in state.pods)
    if taken != state.pods:
        # The new leader lists everything before it decides; what the old one had not written is forgotten.
        yield "the other scheduler leads", state._replace(pods=taken)
    for place, pod in enumerate(state.pods):
        others = (*state.pods[:place], *state.pods[place + 1 :])
        for name, after in _of_pod(pod, others, state, guards):
            pods = (*state.pods[:place], after, *state.pods[place + 1 :])
            yield f"{name} pod {place}", state._replace(pods=pods)


def _of_pod(
    pod: PodState, others: tuple[PodState, ...], state: State, guards: Guards
) -> Iterator[tuple[str, PodState]]:
    yield from _of_scheduler(pod, others, guards)
    if state.agent:
        yield from _of_agent(pod, others, guards)
    if pod.runs and pod.phase == "running":
        yield "end the container of", pod._replace(runs=False)
    if pod.phase != "gone":
        yield "delete by force", pod._replace(phase="gone")
    if pod.phase in ("over", "gone") and pod.reserved:
        yield "free the claim of", pod._replace(device=NONE, reserved=False)


def _of_scheduler(pod: PodState, others: tuple[PodState, ...], guards: Guards) -> Iterator[tuple[str, PodState]]:
    if pod.phase == "waiting" and pod.device == pod.seen == pod.decided == NONE:
        used = {device for other in others for device in (other.seen, other.decided)}
        for device in set(range(DEVICES)) - used:
            yield "decide for", pod._replace(decided=device)
    if pod.decided != NONE:
        seen = pod.decided if guards.assume_before_forget else pod.seen
        yield "write the allocation of", pod._replace(device=pod.decided, reserved=True, decided=NONE, seen=seen)
    if pod.seen != pod.device:
        yield "notice the claim of", pod._replace(seen=pod.device)
    if pod.phase == "waiting" and pod.reserved:
        yield "bind", pod._replace(phase="bound")


def _of_agent(pod: PodState, others: tuple[PodState, ...], guards: Guards) -> Iterator[tuple[str, PodState]]:
    if pod.phase == "bound" and pod.reserved and not pod.noted:
        yield "note the claim of", pod._replace(noted=True)
    if pod.phase == "bound" and pod.noted and pod.prepared == NONE and pod.device != NONE:
        held = any(other.prepared == pod.device for other in others)
        if not (held and guards.refuse_held_device):
            yield "prepare the claim of", pod._replace(prepared=pod.device)
    if pod.phase == "bound" and pod.prepared != NONE:
        yield "start the container of", pod._replace(phase="running", runs=True)
    if pod.phase == "gone" and pod.runs:
        yield "stop the container of", pod._replace(runs=False)
    if pod.noted and not pod.runs and pod.phase in ("bound", "running", "gone"):
        yield "unprepare the claim of", pod._replace(noted=False, prepared=NONE)
    if pod.phase in ("bound", "running") and not pod.noted and not pod.runs:
        yield "report the end of", pod._replace(phase="over")
