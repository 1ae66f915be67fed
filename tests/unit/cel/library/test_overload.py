"""The record of an overload."""

from __future__ import annotations

from cathedra.cel import Environment
from cathedra.cel.checking import types
from cathedra.cel.library.costs import ONE, SCANNED
from cathedra.cel.library.overload import declare
from cathedra.cel.program import compile_expression


def test_a_signature_is_read_from_its_line() -> None:
    overload = declare("list_first: list(T). -> optional(T)")
    assert (overload.id, overload.member, overload.params) == ("list_first", True, ("T",))
    assert (overload.args, overload.result) == (
        (types.list_of(types.param("T")),),
        types.optional_of(types.param("T")),
    )


def test_commas_inside_of_types_do_not_separate_arguments() -> None:
    assert len(declare("merge: map(K, V), map(K, V) -> map(K, V)").args) == 2
    assert declare("none: -> optional(V)").args == ()


def test_an_overload_costs_one_unit_unless_it_says_otherwise() -> None:
    assert declare("f: int -> int").cost is ONE
    assert declare("f: int -> int", abs, SCANNED).cost is SCANNED


def test_one_record_is_all_that_a_new_function_needs() -> None:
    """Checker, evaluator, run-time cost and estimate read the same record."""
    shout = declare("shout_string: string -> string", lambda text: f"{text}!", SCANNED)
    program = compile_expression("shout('a12345678901')", Environment(functions_extra={"shout": (shout,)}))
    assert program.type == types.STRING
    outcome = program.evaluate({})
    assert (outcome.value, outcome.cost, program.max_cost) == ("a12345678901!", 2, 2)
