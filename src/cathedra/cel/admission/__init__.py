"""Admission policies: compilation and evaluation of their expressions (docs/spec/cel.md §10).

A policy is compiled once (`compile_policy`, `compile_mutations`) and evaluated per request. Everything here is pure:
the API server passes objects as plain JSON values and a function that checks permissions, and applies the result.
`_declarations` has the names that expressions may use, `_expressions` compiles them and counts their cost, `_inputs`
has the values of a request and match conditions, `_typechecking` compares expressions with the schemas of kinds,
`_validation` decides, and `_mutation` returns patches.
"""

from cathedra.cel.admission._declarations import environment
from cathedra.cel.admission._expressions import PolicyCompileError
from cathedra.cel.admission._inputs import Input
from cathedra.cel.admission._mutation import CompiledMutations, Mutated, compile_mutations
from cathedra.cel.admission._typechecking import KindSchema, TypeWarning, type_warnings
from cathedra.cel.admission._validation import Annotation, CompiledPolicy, PolicyDecision, Result, compile_policy

__all__ = [
    "Annotation",
    "CompiledMutations",
    "CompiledPolicy",
    "Input",
    "KindSchema",
    "Mutated",
    "PolicyCompileError",
    "PolicyDecision",
    "Result",
    "TypeWarning",
    "compile_mutations",
    "compile_policy",
    "environment",
    "type_warnings",
]
