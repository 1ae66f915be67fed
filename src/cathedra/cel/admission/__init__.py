"""Admission policies: what their expressions may mention, and what they decide.

A policy is compiled once (`compile_policy`, `compile_mutations`) and asked per request. Everything here is pure: the
API server brings objects as plain JSON values and a function that answers permission checks, and applies what comes
out (docs/spec/cel.md §10). `declarations` says what may be mentioned, `expressions` compiles and charges, `inputs` are
the values of a request, `objecttypes` the types of a kind's objects, `typechecking` warns of what does not fit them,
`conditions` decide whether a policy applies, `validation` judges, `mutation` makes patches.
"""

from cathedra.cel.admission.declarations import environment
from cathedra.cel.admission.expressions import PolicyCompileError
from cathedra.cel.admission.inputs import Input
from cathedra.cel.admission.mutation import CompiledMutations, Mutated, compile_mutations
from cathedra.cel.admission.typechecking import KindSchema, TypeWarning, type_warnings
from cathedra.cel.admission.validation import Annotation, CompiledPolicy, PolicyDecision, Result, compile_policy

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
