"""The last lines of a cluster that could not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.cluster.process.background import SERVER_PROGRAM, count_servers, last_words

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


def test_the_api_servers_of_a_cluster_are_its_process_and_the_children_of_their_program(tmp_path: Path) -> None:
    for pid, words in {
        "11": f"python\0-m\0{SERVER_PROGRAM}\0",
        "12": "crun\0",
        "13": f"python\0-m\0{SERVER_PROGRAM}\0",
    }.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_text(words)
    for thread, children in {"7": "11 12 ", "8": "13 99 "}.items():
        (tmp_path / "7/task" / thread).mkdir(parents=True)
        (tmp_path / "7/task" / thread / "children").write_text(children)
    assert count_servers(7, tmp_path) == 3
    assert count_servers(5, tmp_path) == 1
