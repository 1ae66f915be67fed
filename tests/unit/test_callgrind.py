"""The reader of Valgrind's profiles, on a profile of a few lines."""

from __future__ import annotations

from benchmarks.callgrind import Cost, read_profile

PROFILE = """\
# callgrind format
events: Ir
summary: 1000

fn=(1) _PyEval_EvalFrameDefault
34 100
+4 50
cfn=(2) 0x0000000004001000
calls=4 0x0
+2 600
-1 50

fn=(2)
0x1 200
cfn=(3) 0x0000000004001009'2
calls=2 0x0
* 80
cfn=(4) malloc
calls=7 0x0
* 30
"""
MAP = """\
4001009 b py::Store.<locals>.inner:/usr/lib/python3.12/asyncio/tasks.py
4001000 9 py::Store.put:/home/user/cathedra/src/cathedra/client/store.py
"""


def test_the_total_counts_each_function_without_its_callees() -> None:
    assert read_profile(PROFILE, "", work=2).total == (100 + 50 + 50 + 200) / 2


def test_functions_of_python_are_found_by_the_addresses_of_their_trampolines() -> None:
    assert read_profile(PROFILE, MAP, work=2).functions == (
        Cost("cathedra/client/store.py:Store.put", 2, 300),
        Cost("asyncio/tasks.py:Store.<locals>.inner", 1, 40),
    )


def test_an_address_outside_all_trampolines_is_no_function_of_python() -> None:
    assert read_profile(PROFILE, "5000000 b py::other:/x/src/other.py\n", work=2).functions == ()
