"""The examples of the documentation are run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "cel.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_of_the_page_gives_what_it_shows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for block in _BLOCK.finditer(page):
        line = page[: block.start(1)].count("\n")
        test = doctest.DocTestParser().get_doctest(block[1], names, PAGE.name, str(PAGE), line)
        runner.run(test, clear_globs=False)
        names.update(test.globs)
    assert runner.tries > 20
    assert runner.failures == 0
