"""Memos keep results by everything that these depend on, within bounds, and can all be switched off."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from operator import not_
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cathedra
from cathedra.remembering import IDENTITY, LARGE, LargeObjects, Memory, everything_but
from tests.requirements import with_memos

SOURCES = Path(cathedra.__file__).parent


class Point(msgspec.Struct, frozen=True):
    x: int = 0
    y: int = 0
    labels: dict[str, str] = {}
    other: Any = None


class Thing:
    pass


class Counting:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        self.calls += 1
        return args

    __name__ = __qualname__ = "counting"


def memo(**options: Any) -> tuple[Counting, Any, Memory]:
    memory, function = Memory(is_on=True), Counting()
    return function, memory.remembered("memo", **{"size": 2, **options})(function), memory


def test_results_are_kept_by_the_values_of_arguments_unless_there_is_a_key() -> None:
    function, found, memory = memo()
    assert [found("a"), found("a"), found("b")] == [("a",), ("a",), ("b",)]
    assert (function.calls, memory.statistics()) == (2, {"memo": 2})


def test_results_are_kept_by_a_key() -> None:
    function, found, _ = memo(key=lambda one, _: one)
    assert [found("a", 1), found("a", 2)] == [("a", 1), ("a", 1)]
    assert function.calls == 1


def test_results_are_kept_by_the_identity_of_all_arguments_which_are_held() -> None:
    function, found, _ = memo(key=IDENTITY, size=1000)
    things = [found(Thing()) for _ in range(1000)]
    assert function.calls == 1000
    assert len(set(map(id, things))) == 1000


@pytest.mark.parametrize("key", [lambda _: None, lambda _: ([],)])
def test_no_key_and_one_that_cannot_be_hashed_keep_nothing(key: Any) -> None:
    function, found, memory = memo(key=key)
    assert [found(1), found(1), found(2)] == [(1,), (1,), (2,)]
    assert (function.calls, memory.statistics()) == (3, {"memo": 0})


@pytest.mark.parametrize(
    "function",
    [
        lambda one: [one],
        lambda one, two: [one, two],
        lambda one, two, three: [one, two, three],
        lambda one, two, three, four: [one, two, three, four],
        lambda *things: list(things),
    ],
)
def test_results_are_kept_by_the_identity_of_every_argument(function: Callable[..., Any]) -> None:
    found = Memory(is_on=True).remembered("memo", key=IDENTITY, size=8)(function)
    things = [Thing() for _ in inspect.signature(function).parameters]
    result = found(*things)
    assert result == things
    assert found(*things) is result
    for place in range(len(things)):
        others = [*things[:place], Thing(), *things[place + 1 :]]
        assert found(*others) == others


@pytest.mark.parametrize("key", [IDENTITY, lambda *args: args])
def test_only_chosen_results_are_kept(key: Any) -> None:
    function, found, _ = memo(key=key, keep=not_)
    assert [found(), found(), found(1), found(1)] == [(), (), (1,), (1,)]
    assert function.calls == 3


@pytest.mark.parametrize("key", [None, IDENTITY, lambda *args: args])
def test_the_oldest_results_go_first(key: Any) -> None:
    function, found, memory = memo(key=key)
    things = Thing(), Thing(), Thing()
    for thing in (*things, *things[1:]):
        found(thing)
    assert (function.calls, memory.statistics()) == (3, {"memo": 2})
    found(things[0])
    assert function.calls == 4


@pytest.mark.parametrize("key", [None, IDENTITY, lambda *args: args])
def test_everything_is_forgotten_at_once(key: Any) -> None:
    function, found, memory = memo(key=key)
    found("a")
    memory.forget()
    found("a")
    assert function.calls == 2


def test_what_holds_objects_is_forgotten_apart() -> None:
    memory, thing = Memory(is_on=True), Thing()
    counted = Counting(), Counting()
    by_object = memory.remembered("by object", key=IDENTITY, size=2)(counted[0])
    by_value = memory.remembered("by value", key=lambda *args: args, size=2)(counted[1])
    for _ in range(2):
        by_object(thing)
        by_value(thing)
        memory.forget_objects()
    assert [one.calls for one in counted] == [2, 1]


def test_an_object_has_one_key_and_no_other_object_has_it() -> None:
    keys = Memory(is_on=True).numbered("keys", size=1000)
    things = [Thing() for _ in range(1000)]
    found = list(map(keys, things))
    assert list(map(keys, things)) == found
    assert len(set(found)) == 1000


def test_objects_that_are_gone_do_not_leave_their_keys_to_others() -> None:
    keys = Memory(is_on=True).numbered("keys", size=2)
    assert len({keys(Thing()) for _ in range(100)}) == 100


def test_objects_that_are_declared_equivalent_have_one_key() -> None:
    keys = Memory(is_on=True).numbered("keys", size=8)
    first, second, other = Thing(), Thing(), Thing()
    for one in (first, second):
        keys.declare(one, (keys(other), "changed"))
    assert keys(first) == keys(second) != keys(other)


def test_keys_are_dropped_with_what_holds_objects() -> None:
    memory, thing = Memory(is_on=True), Thing()
    keys = memory.numbered("keys", size=8)
    before = keys(thing)
    assert memory.statistics() == {"keys": 1}
    memory.forget_objects()
    assert memory.statistics() == {"keys": 0}
    assert keys(thing) != before


@with_memos
def test_memos_that_hold_objects_are_emptied_when_large_objects_add_up() -> None:
    dropped: list[None] = []
    objects = LargeObjects(lambda: dropped.append(None))
    for _ in range(10_000):
        objects.note(LARGE)
    assert not dropped
    for size, expected in ((3_000_000, 0), (1_000_000, 0), (LARGE + 1, 0), (3_000_000, 1), (3_000_000, 2)):
        objects.note(size)
        assert len(dropped) == expected


def test_a_memory_that_is_off_returns_functions_as_they_are() -> None:
    function = Counting()
    off = Memory(is_on=False)
    assert off.remembered("memo", size=2, key=IDENTITY)(function) is function
    assert off.statistics() == {}


def test_the_environment_variable_switches_all_memos_of_a_process_off() -> None:
    program = """
from cathedra.releases import FeatureGates
from cathedra.remembering import IDENTITY, remembered
by_identity, by_value = (remembered("x", size=1, key=key)(lambda one: object()) for key in (IDENTITY, None))
print(by_identity(1) is by_identity(1), by_value(1) is by_value(1))
"""
    for switch, expected in (("0", "False"), ("1", "True"), ("", "True")):
        environment = {**os.environ, "CATHEDRA_REMEMBER": switch}
        printed = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert printed.stdout.split() == [expected] * 2


def test_a_key_reads_every_field_that_is_not_excluded() -> None:
    read = everything_but(Point, {"x": "it is checked each time"})
    one = Point(1, 2, {"a": "b"}, "c")
    assert read(one) == read(Point(7, 2, {"a": "b"}, "c"))
    others = Point(1, 3, {"a": "b"}, "c"), Point(1, 2, {"a": "c"}, "c"), Point(1, 2, {}, "c"), Point(1, 2, {"a": "b"})
    assert len({read(one), *map(read, others)}) == 5
    nothing = everything_but(Point, dict.fromkeys(Point.__struct_fields__, "a reason"))
    assert nothing(one) == nothing(Point())


def test_a_field_that_is_added_is_in_the_key() -> None:
    class Newer(Point, frozen=True):
        added: str = ""

    read = everything_but(Newer, {"x": "it is checked each time"})
    assert read(Newer(added="a")) != read(Newer(added="b"))


@pytest.mark.parametrize(("reasons", "text"), [({"z": "r"}, "no field z"), ({"x": ""}, "the reason why .* x")])
def test_an_exclusion_needs_a_field_and_a_reason(reasons: dict[str, str], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        everything_but(Point, reasons)


def test_no_other_module_makes_a_bounded_memo_of_its_own() -> None:
    """The switch would not reach it."""
    sources = {str(path.relative_to(SOURCES)): path.read_text() for path in SOURCES.rglob("*.py")}
    assert [path for path, source in sources.items() if "lru_cache" in source] == ["remembering.py"]


def test_no_key_lists_what_is_read_of_a_struct() -> None:
    """Such a key goes wrong when a field is added: it is made by `everything_but`, or from whole arguments."""
    listed = []
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text()
        if "remembered(" in source:
            listed += [f"{path.relative_to(SOURCES)}:{line}" for line in inclusions(ast.parse(source))]
    assert listed == []


@pytest.mark.parametrize(
    ("key", "is_refused"),
    [
        ("key=attrgetter('a', 'b')", True),
        ("key=lambda one: (one.a, one.b)", True),
        ("key=lambda one: one.a", True),
        ("key=KEY", True),
        ("key=key_of", True),
        ("key=IDENTITY", False),
        ("key=whole", False),
        ("key=everything_but(Struct, {})", False),
    ],
)
def test_keys_that_list_what_they_read_are_found(key: str, is_refused: bool) -> None:
    module = f"""
KEY = attrgetter("a", "b")
_rest = everything_but(Struct, {{"a": "a reason"}})
def key_of(one): return f(one), one.b
def whole(one, other): return _rest(one), number(other.whole)
@remembered("x", size=1, {key})
def function(one): ...
"""
    assert bool(list(inclusions(ast.parse(module)))) is is_refused


def inclusions(module: ast.Module) -> Iterator[int]:
    """The lines of keys that take attributes, or several by `attrgetter`, into what they return."""
    functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    values = {
        target.id: node.value
        for node in module.body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(module):
        if not (isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute))):
            continue
        name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
        for keyword in call.keywords:
            if name == "remembered" and keyword.arg == "key" and _lists(keyword.value, functions, values):
                yield call.lineno


def _lists(key: ast.expr, functions: dict[str, ast.FunctionDef], values: dict[str, ast.expr]) -> bool:
    if isinstance(key, ast.Name):
        if key.id in functions:
            returned = [node.value for node in ast.walk(functions[key.id]) if isinstance(node, ast.Return)]
            return any(map(_takes_attributes, returned))
        return key.id in values and _lists(values[key.id], functions, values)
    if isinstance(key, ast.Call):
        return isinstance(key.func, ast.Name) and key.func.id == "attrgetter"
    return isinstance(key, ast.Lambda) and _takes_attributes(key.body)


def _takes_attributes(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Tuple):
        return any(map(_takes_attributes, value.elts))
    return isinstance(value, ast.Attribute)
