"""A dump has no changes."""

from __future__ import annotations

import json

from cathedra.page.unchanging import Unchanging


async def test_the_stream_of_a_dump_reports_that_it_is_one() -> None:
    assert json.loads(await anext(Unchanging().lines())) == {"type": "static"}
