"""Decorators of asynchronous tests that need a world or a clock of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any

from cathedra.clock import run_virtual

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
