"""A cluster for one test: API server, controllers, scheduler and simulated nodes, in a thread of this process.

The thread has its own event loop, so a test may block, run an event loop of its own, or talk to the cluster through
its kubeconfig with any client. Every method of `DRACluster` has an awaitable twin in `DRACluster.aio`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, TypeVar

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Input
from cathedra.api.status import StatusError
from cathedra.clock import LoopClock
from cathedra.cluster.cluster import RunningCluster
from cathedra.cluster.config import ClusterConfig, DriverConfig
from cathedra.cluster.manifests import ManifestError
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import Explanation
from cathedra.insight.reading.state import ClusterState
from cathedra.profiles import ProfileError, load_profile
from cathedra.testing.actions import Actions, AdvanceableLoop, Condition, NotInTime
from cathedra.testing.options import ClusterOptions

T = TypeVar("T")

# pytest ends a traceback at the test's own line, as it does for assertions of its own.
__tracebackhide__ = True
_EXPECTED: Final = (NotInTime, ManifestError, StatusError, InvalidInput, ProfileError)
"""Errors of the test, not of the cluster."""

PATIENCE: Final = 60.0
"""Default timeout of a wait in seconds."""
IDLE_SECONDS: Final = 150.0
"""Longer than an idle connection is kept, and then waited for."""


class DRACluster:
    """A cluster; as a context it is started on the way in and stopped on the way out.

    Objects that methods return are typed and frozen, as in `cathedra.api`: ``pod.status.phase``.
    """

    def __init__(self, options: ClusterOptions, directory: Path) -> None:
        """``directory``: for kubeconfig and certificates; the objects are in memory."""
        self.options = options
        self.kubeconfig = directory / "kubeconfig"
        self.server = ""
        """URL of the API server."""
        self.aio = AsyncDRACluster(self)
        self._directory = directory
        self._running: concurrent.futures.Future[Actions] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name="dra_cluster", daemon=True)
        self._stop: Callable[[], None] = lambda: None
        self._loop: AdvanceableLoop | None = None

    def start(self) -> DRACluster:
        """Start it, and wait until its nodes are Ready and their slices published.

        Raises:
            InvalidOption: an option cannot be met.
            ProfileError: there is no such profile.
        """
        self._thread.start()
        self._running.result()
        return self

    def close(self) -> None:
        """Stop it, and wait until it has stopped."""
        self._stop()
        self._thread.join()

    def __enter__(self) -> DRACluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def apply(self, manifests: Input, *, namespace: str = "default") -> list[Any]:
        """Create the objects, or change them to the manifests: YAML text, a path, dicts or typed objects.

        Raises:
            ManifestError: a document is no object that the release serves.
            StatusError: the API server refuses one.
        """
        return self._call(lambda actions: actions.apply(manifests, namespace))

    def get(self, what: str, *, namespace: str = "default") -> Any:
        """Return the object that «KIND/NAME» names, as ``pod/train``.

        Raises:
            ManifestError: there is no such kind.
            StatusError: there is no such object.
        """
        return self._call(lambda actions: actions.get(what, namespace))

    def list(self, kind: str, *, namespace: str = "", labels: str = "") -> list[Any]:
        """Return the objects of a kind, as ``resourceclaims``, of all namespaces unless one is given.

        Raises:
            ManifestError: there is no such kind.
        """
        return self._call(lambda actions: actions.list(kind, namespace, labels))

    def delete(self, what: str, *, namespace: str = "default") -> None:
        """Delete the object that «KIND/NAME» names; `wait_for` its ``delete`` to see it gone.

        Raises:
            ManifestError: there is no such kind.
            StatusError: there is no such object.
        """
        self._call(lambda actions: actions.delete(what, namespace))

    def patch_status(self, what: str, status: Mapping[str, Any], *, namespace: str = "default") -> Any:
        """Change the status of the object that «KIND/NAME» names, as its owner would.

        Raises:
            ManifestError: there is no such kind.
            StatusError: there is no such object, or the status is refused.
        """
        return self._call(lambda actions: actions.patch_status(what, status, namespace))

    def wait_for(self, what: str, until: Condition, *, namespace: str = "default", timeout: float = PATIENCE) -> Any:
        """Wait until an object meets a condition. Return it, or None if it is deleted.

        ``until`` is ``condition=NAME``, ``condition=NAME=VALUE``, ``phase=NAME``, ``delete``, or a predicate on the
        object. The cluster's time does not matter here: ``timeout`` is in seconds of the machine's clock.

        Raises:
            NotInTime: it did not come to that; the text has its status, and why a pod waits.
            ManifestError: there is no such kind, or the condition is none.
        """
        return self._call(lambda actions: actions.wait_for(what, until, namespace, timeout))

    def advance(self, seconds: float) -> None:
        """Let time pass for the cluster, in no time; what is due by then has happened when this returns.

        Raises:
            ValueError: time does not run backwards.
        """
        self._call(lambda actions: actions.advance(seconds))

    def add_nodes(self, count: int = 1, *, profile: str = "") -> tuple[str, ...]:
        """Start more nodes, of a profile or like the first ones, and wait until they are Ready; their names.

        Raises:
            ProfileError: there is no such profile.
        """
        return self._call(lambda actions: actions.add_nodes(count, profile))

    def silence_node(self, name: str) -> None:
        """Stop a node as a loss of power does: after some advanced time it is not Ready, and its pods are evicted.

        Raises:
            KeyError: no node of that name runs.
        """
        self._call(lambda actions: actions.silence_node(name))

    def state(self) -> ClusterState:
        """Return the whole state, for the tools of `cathedra.insight`."""
        return self._call(lambda actions: actions.state())

    def explain(self, what: str, *, namespace: str = "default") -> Explanation:
        """Explain why a pod, claim or workload waits, with remedies, or what it has.

        Raises:
            InvalidInput: there is no such object.
        """
        return explain(self.state(), what, namespace=namespace)

    def waiting(self) -> str:
        """Return the explanations of all pods that wait for a node; "" if none does."""
        return self._call(lambda actions: actions.waiting())

    def _call(self, action: Callable[[Actions], Coroutine[Any, Any, T]]) -> T:
        try:
            return self._submit(action).result()
        except _EXPECTED as error:
            # Without the frames of the cluster's thread, so that a report begins and ends in the test.
            raise error.with_traceback(None) from None

    def _submit(self, action: Callable[[Actions], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        actions = self._running.result()
        if self._loop is None or not self._thread.is_alive():
            raise RuntimeError("this cluster has been stopped")
        return asyncio.run_coroutine_threadsafe(action(actions), self._loop)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=AdvanceableLoop) as runner:
            try:
                runner.run(self._main())
            except BaseException as error:
                while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
                    error = error.exceptions[0]
                if self._running.done():
                    raise
                self._running.set_exception(error)

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AdvanceableLoop)
        stopped = asyncio.Event()
        clock = LoopClock(loop, epoch=time.time() - loop.time())
        cluster = RunningCluster(
            _config(self.options, self._directory), clock=clock, random=Random(0), say=lambda _: None
        )
        async with cluster.running():
            await cluster.wait_ready()
            cluster.write_kubeconfig(self.kubeconfig, merge=False)
            self._loop, self.server = loop, cluster.server.url

            def stop() -> None:
                loop.call_soon_threadsafe(stopped.set)

            self._stop = stop
            self._running.set_result(Actions(cluster, loop))
            await stopped.wait()
            # By then the server has hung up on clients that kept a connection; it would wait for them else.
            await loop.advance(IDLE_SECONDS)
            loop.hurry()


class AsyncDRACluster:
    """The same for tests that are coroutines: nothing blocks their event loop."""

    def __init__(self, cluster: DRACluster) -> None:
        self._cluster = cluster

    async def apply(self, manifests: Input, *, namespace: str = "default") -> list[Any]:
        """Apply manifests, as `DRACluster.apply` does."""
        return await self._await(lambda actions: actions.apply(manifests, namespace))

    async def get(self, what: str, *, namespace: str = "default") -> Any:
        """Return an object, as `DRACluster.get` does."""
        return await self._await(lambda actions: actions.get(what, namespace))

    async def list(self, kind: str, *, namespace: str = "", labels: str = "") -> list[Any]:
        """Return objects of a kind, as `DRACluster.list` does."""
        return await self._await(lambda actions: actions.list(kind, namespace, labels))

    async def delete(self, what: str, *, namespace: str = "default") -> None:
        """Delete an object, as `DRACluster.delete` does."""
        await self._await(lambda actions: actions.delete(what, namespace))

    async def patch_status(self, what: str, status: Mapping[str, Any], *, namespace: str = "default") -> Any:
        """Patch a status, as `DRACluster.patch_status` does."""
        return await self._await(lambda actions: actions.patch_status(what, status, namespace))

    async def wait_for(
        self, what: str, until: Condition, *, namespace: str = "default", timeout: float = PATIENCE
    ) -> Any:
        """Wait for a condition, as `DRACluster.wait_for` does."""
        return await self._await(lambda actions: actions.wait_for(what, until, namespace, timeout))

    async def advance(self, seconds: float) -> None:
        """Advance virtual time, as `DRACluster.advance` does."""
        await self._await(lambda actions: actions.advance(seconds))

    async def add_nodes(self, count: int = 1, *, profile: str = "") -> tuple[str, ...]:
        """Add nodes to the cluster, as `DRACluster.add_nodes` does."""
        return await self._await(lambda actions: actions.add_nodes(count, profile))

    async def silence_node(self, name: str) -> None:
        """Silence a node's heartbeats, as `DRACluster.silence_node` does."""
        await self._await(lambda actions: actions.silence_node(name))

    async def state(self) -> ClusterState:
        """Return the cluster's state, as `DRACluster.state` does."""
        return await self._await(lambda actions: actions.state())

    async def explain(self, what: str, *, namespace: str = "default") -> Explanation:
        """Explain an object, as `DRACluster.explain` does."""
        return explain(await self.state(), what, namespace=namespace)

    async def _await(self, action: Callable[[Actions], Coroutine[Any, Any, T]]) -> T:
        try:
            return await asyncio.wrap_future(self._cluster._submit(action))
        except _EXPECTED as error:
            raise error.with_traceback(None) from None


def _config(options: ClusterOptions, directory: Path) -> ClusterConfig:
    return ClusterConfig(
        data_dir=directory,
        nodes=options.nodes,
        store="memory",
        runtime="simulated",
        release=options.kubernetes_version,
        gates=options.feature_gates,
        driver=DriverConfig(gpus=options.gpus),
        profile=load_profile(options.profile) if options.profile else None,
        context="dra-cluster",
    )
