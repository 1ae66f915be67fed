"""Runners of asynchronous tests that need a world or a clock of their own, and of tasks beside a test."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, TypeVar

from cathedra.clock import run_virtual

T = TypeVar("T")
Test = Callable[..., Coroutine[Any, Any, None]]


def run_with(runner: Callable[[Test], object]) -> Callable[[Test], Callable[..., None]]:
    """Run a test by ``runner``, which supplies its positional parameters. Pytest supplies those that are keyword-only.

    Arguments of the runner stand in a function: ``@run_with(lambda test: play(test, nodes=2))``.
    """

    def decorate(test: Test) -> Callable[..., None]:
        signature = inspect.signature(test)
        fixtures = [one for one in signature.parameters.values() if one.kind is inspect.Parameter.KEYWORD_ONLY]

        @wraps(test)
        def run(**given: Any) -> None:
            runner(partial(test, **given) if given else test)

        # Pytest takes the names of fixtures and parameters from here, and must not look for those of the runner.
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return decorate


on_virtual_clock = run_with(lambda test: run_virtual(test()))
"""Runs a test on an event loop whose time passes only when all its tasks wait."""


@asynccontextmanager
async def beside(coroutine: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run a coroutine as a task while the body of the context runs, then cancel it and wait for its end."""
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
