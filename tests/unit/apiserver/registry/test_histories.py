"""Lists and watches against a model: whatever is written, every past state can be read and every change is seen once.

The model is a list of whole states, one per revision. A watch from any of them, applied to that state, has to lead to
the present one; a list at any of them has to be it.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.resources import CONFIGMAPS
from cathedra.client.transport import APICall, EventType, ListOptions
from cathedra.clock import LoopClock, VirtualTimeLoop
from cathedra.releases import FeatureGates
from tests.unit.apiserver.plain_definitions import plain_definitions

NAMES = st.sampled_from(["a", "b", "c", "d"])
COLOURS = st.sampled_from(["red", "blue"])
State = dict[str, tuple[str, str]]
"""Name → revision and colour."""


class Histories(RuleBasedStateMachine):
    """One resource in one namespace, written by one writer."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = VirtualTimeLoop()
        self._api = self._run(self._open())
        self._states: list[tuple[int, State]] = [(self._server.revision, {})]

    async def _open(self) -> Any:
        config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
        clock = LoopClock(asyncio.get_running_loop())
        self._server = await APIServer.open(config, clock=clock, random=random.Random(1))
        return self._server.transport()

    def teardown(self) -> None:
        self._run(self._server.close())
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def _tried(self, work: Any) -> tuple[Any, StatusError | None]:
        """The outcome of a write: its response, or the refusal."""
        try:
            return self._run(work), None
        except StatusError as error:
            return None, error

    @property
    def _now(self) -> State:
        return self._states[-1][1]

    def _changed(self, name: str, entry: tuple[str, str] | None) -> None:
        state = {other: value for other, value in self._now.items() if other != name}
        if entry is not None:
            state[name] = entry
        self._states.append((self._server.revision, state))

    @rule(name=NAMES, colour=COLOURS)
    def create(self, name: str, colour: str) -> None:
        obj = ConfigMap(metadata=ObjectMeta(name=name, labels={"colour": colour}))
        made, error = self._tried(self._api.call(APICall("create", CONFIGMAPS, "default", body=obj)))
        assert (error is not None and error.is_already_exists) == (name in self._now)
        if made is None:
            return
        self._changed(name, (made.metadata.resource_version, colour))

    @rule(name=NAMES, colour=COLOURS, stale=st.booleans())
    def update(self, name: str, colour: str, stale: bool) -> None:
        version = "1" if stale else self._now.get(name, ("", ""))[0]
        obj = ConfigMap(metadata=ObjectMeta(name=name, labels={"colour": colour}, resource_version=version))
        made, error = self._tried(self._api.call(APICall("update", CONFIGMAPS, "default", obj.metadata.name, body=obj)))
        assert (error is not None and error.is_not_found) == (name not in self._now)
        assert (error is not None and error.is_conflict) == (stale and name in self._now)
        if made is None:
            return
        known = self._now[name]
        if colour == known[1]:
            assert made.metadata.resource_version == known[0]  # a write that changes nothing is none
            return
        self._changed(name, (made.metadata.resource_version, colour))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        _, error = self._tried(self._api.call(APICall("delete", CONFIGMAPS, "default", name, body=DeleteOptions())))
        assert (error is not None and error.is_not_found) == (name not in self._now)
        if error is None:
            self._changed(name, None)

    @precondition(lambda self: len(self._states) > 1)
    @rule(data=st.data(), colour=st.sampled_from(["", "red", "blue"]))
    def watch_from_the_past(self, data: st.DataObject, colour: str) -> None:
        revision, state = data.draw(st.sampled_from(self._states))
        seen = self._run(self._replayed(revision, _selected(state, colour), colour))
        assert seen == _selected(self._now, colour)

    async def _replayed(self, revision: int, state: State, colour: str) -> State:
        options = ListOptions(resource_version=str(revision), label_selector=f"colour={colour}" if colour else "")
        last = revision
        async with self._api.watch(APICall("watch", CONFIGMAPS, "default", selection=options)) as events:
            try:
                async with asyncio.timeout(1):
                    async for event in events:
                        metadata = event.object.metadata
                        assert int(metadata.resource_version) > last, "events come in the order of their revisions"
                        last = int(metadata.resource_version)
                        assert (event.type is EventType.ADDED) == (metadata.name not in state)
                        if event.type is EventType.DELETED:
                            del state[metadata.name]
                        else:
                            state[metadata.name] = (metadata.resource_version, metadata.labels["colour"])
            except TimeoutError:
                return state
        raise AssertionError("nobody ended the watch")

    @rule(data=st.data())
    def list_the_past(self, data: st.DataObject) -> None:
        revision, state = data.draw(st.sampled_from(self._states))
        options = ListOptions(resource_version=str(revision), resource_version_match="Exact")
        assert _shown(self._run(self._api.call(APICall("list", CONFIGMAPS, "default", selection=options)))) == state

    @rule(limit=st.integers(1, 3))
    def list_in_pages(self, limit: int) -> None:
        """A page after a write still shows the state of the first."""
        before, found, token = self._now, {}, ""
        while True:
            page = self._run(
                self._api.call(
                    APICall("list", CONFIGMAPS, "default", selection=ListOptions(limit=limit, continue_=token))
                )
            )
            found |= _shown(page)
            token = page.continue_
            if not token:
                break
            self.create("d", "red")
        assert found == before

    @invariant()
    def the_present_is_what_was_written(self) -> None:
        assert _shown(self._run(self._api.call(APICall("list", CONFIGMAPS, "default")))) == self._now


def _shown(page: Any) -> State:
    return {one.metadata.name: (one.metadata.resource_version, one.metadata.labels["colour"]) for one in page.items}


def _selected(state: State, colour: str) -> State:
    return {name: value for name, value in state.items() if not colour or value[1] == colour}


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
