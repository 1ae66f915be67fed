"""What a cluster that could not start said last."""

from __future__ import annotations

import pytest

from cathedra.cluster.process.background import last_words

GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "x.py", line 1, in <module>
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: the port is taken
    +------------------------------------
"""


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("API server\ncathedra: no such file\n", "no such file"),
        (GROUP, "ValueError: the port is taken"),
        ("", "it printed nothing"),
    ],
)
def test_the_last_line_that_says_something_is_told(printed: str, words: str) -> None:
    assert last_words(printed) == words
