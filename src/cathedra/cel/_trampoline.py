"""Descent into trees with a stack of its own, so that depth costs no recursion.

Legal expressions nest deeper than Python's functions may (250 levels of brackets are over 1,000 nodes), and the limit
of recursion belongs to the whole process, where the C code of decoders relies on it. So functions that walk a tree are
generators here: they ``yield`` the generator of a part and receive what it returns.

    def height(node: Node) -> Descent[int]:
        highest = 0
        for child in node.children:
            highest = max(highest, (yield height(child)))
        return highest + 1

    run(height(root))
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Descent = Generator[Any, Any, T]
"""A walk that yields the walks of parts, and returns a ``T``."""


def run(descent: Descent[T]) -> T:
    """Run a descent and return its result. An exception of a part is raised at the ``yield`` that called it."""
    waiting: list[Descent[Any]] = []
    current: Descent[Any] = descent
    answer: Any = None
    failure: BaseException | None = None
    while True:
        try:
            part = current.send(answer) if failure is None else current.throw(failure)
        except StopIteration as stop:
            answer, failure = stop.value, None
            if not waiting:
                return answer  # type: ignore[no-any-return]  # of the first descent, which returns a T
            current = waiting.pop()
        except Exception as error:
            if not waiting:
                raise
            failure = error
            current = waiting.pop()
        else:
            waiting.append(current)
            current, answer, failure = part, None, None
