"""MutatingAdmissionPolicies: the patches that they make for a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from cathedra.cel.admission._declarations import environment
from cathedra.cel.admission._expressions import (
    BudgetExhausted,
    CostBudget,
    Expression,
    PolicyCompileError,
    compile_one,
    compile_variables,
)
from cathedra.cel.admission._inputs import OUT_OF_BUDGET, Input, RequestValues, objection
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.errors import CostLimitExceeded
from cathedra.cel.library.patches import JSON_PATCH, OBJECT, NotJSON, ObjectValue, PatchOperation

MUTATION_BUDGET: Final = 10_000_000
"""Cost limit of one mutation, variables included."""
_WANTED: Final[Mapping[str, tuple[str, Type]]] = {
    "ApplyConfiguration": ("applyConfiguration", types.struct(OBJECT)),
    "JSONPatch": ("jsonPatch", types.list_of(types.struct(JSON_PATCH))),
}


class Mutated(msgspec.Struct, frozen=True):
    """Result of one mutation: a patch as plain JSON, or an error text."""

    patch_type: str
    """The kind of patch: ``ApplyConfiguration`` or ``JSONPatch``."""
    patch: Any = None
    error: str = ""


class CompiledMutations:
    """A policy's expressions, compiled. ``errors`` is what creating the policy would report; it can run
    nevertheless."""

    def __init__(self, spec: Mapping[str, Any], check: Callable[[], object] = bool) -> None:
        self.fails = spec.get("failurePolicy", "Fail") != "Ignore"
        params = bool(spec.get("paramKind"))
        self.variables, known = compile_variables(spec.get("variables") or (), check, params=params)
        full = environment(params=params, authorizer=True, variables=known)
        patching = environment(params=params, authorizer=True, variables=known, patches=True)
        given = spec.get("matchConditions") or ()
        self.conditions = [compile_one(one["expression"], full, (types.BOOL,)) for one in given]
        self.mutations: list[tuple[str, Expression]] = []
        for one in spec.get("mutations") or ():
            check()
            self.mutations.append(_mutation(one, patching))
        self.errors = tuple(self._errors(given, params=params))

    def _errors(self, conditions: Any, *, params: bool) -> list[PolicyCompileError]:
        plain = environment(params=params, authorizer=True)
        checked = [compile_one(one["expression"], plain, (types.BOOL,)) for one in conditions]
        placed = [
            *((f"matchConditions[{position}].expression", one) for position, one in enumerate(checked)),
            *((f"variables[{position}].expression", one) for position, one in enumerate(self.variables.values())),
        ]
        for position, (patch_type, compiled) in enumerate(self.mutations):
            placed.append((f"mutations[{position}].{_WANTED[patch_type][0]}.expression", compiled))
        return [PolicyCompileError(f"spec.{path}", one.reason, one.error) for path, one in placed if one.error]

    def objection(self, given: Input) -> str | None:
        """Return None if the policy applies, "" if it does not, else the error that decides."""
        return objection(self.conditions, self.variables, given, fails=self.fails)

    def mutate(self, position: int, given: Input) -> Mutated:
        """Evaluate the mutation at that position for the object."""
        patch_type, expression = self.mutations[position]
        budget = CostBudget(MUTATION_BUDGET, given.interrupted)
        try:
            outcome = expression.run(RequestValues(self.variables, given, budget).all(), budget)
            if outcome.error is not None:
                return Mutated(patch_type, error=outcome.error)
            return _patch(patch_type, outcome.value)
        except BudgetExhausted:
            return Mutated(patch_type, error=OUT_OF_BUDGET)
        except NotJSON as error:
            return Mutated(patch_type, error=str(error))
        except CostLimitExceeded as error:
            return Mutated(patch_type, error=error.text)


def _mutation(mutation: Mapping[str, Any], declared: Any) -> tuple[str, Expression]:
    patch_type: str = mutation["patchType"]
    member, wanted = _WANTED[patch_type]
    return patch_type, compile_one(mutation[member]["expression"], declared, (wanted,))


def _patch(patch_type: str, value: Any) -> Mutated:
    """Return the patch that an expression's value represents.

    Raises:
        NotJSON: it has no form in JSON, or the types in it are named wrongly.
    """
    if isinstance(value, ObjectValue):
        if problem := value.misnamed():
            raise NotJSON(f"type mismatch: {problem}")
        return Mutated(patch_type, value.plain())
    if isinstance(value, list) and all(isinstance(one, PatchOperation) for one in value):
        return Mutated(patch_type, [one.plain() for one in value])
    raise NotJSON("type mismatch: the expression evaluated to no patch")


def compile_mutations(spec: Mapping[str, Any], check: Callable[[], object] = bool) -> CompiledMutations:
    """Compile a policy's spec, given as its JSON form. Never raises for what a user wrote in expressions: see
    ``errors``. Every mutation has the member that its patch type names."""
    return CompiledMutations(spec, check)
