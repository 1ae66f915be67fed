"""Evaluates the expressions of ``vectors/cel`` with Cathedra's CEL and compares the results (see the README there)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cathedra.api.quantity import Quantity
from cathedra.cel import admission, device, program, values
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.device import DeviceView
from cathedra.cel.environment import BASE_LIBRARIES, Environment
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.cel.library.authorizer import AccessAnswer, AccessQuestion
from cathedra.cel.library.conversions import parse_double
from cathedra.cel.library.network import CIDR, IP
from cathedra.cel.library.overload import declare
from cathedra.cel.library.quantity import QuantityValue
from cathedra.cel.library.semver import Semver
from cathedra.cel.library.times import parse_timestamp, timestamp_text
from cathedra.cel.library.urls import URL
from cathedra.cel.selector import CompiledSelector, compile_selector, validate_selector
from cathedra.cel.syntax import parser
from cathedra.cel.values import Duration, Optional, Timestamp, TypeValue, UInt
from tests.conformance.vectorfiles import cases, vector_files

Result = tuple[str, str, bool, str]

SHORT = 160
"""Error texts up to here are compared to the letter; of longer ones the beginning."""


@dataclass(frozen=True)
class _Attribute:
    int_: int | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _Capacity:
    value: Quantity


_FIELDS = {"int": "int_", "bool": "bool_"}


def view_of(described: Mapping[str, Any]) -> DeviceView:
    """The device of a question."""
    attributes = {
        name: _Attribute(**{_FIELDS.get(k, k): tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
        for name, fields in described.get("attributes", {}).items()
    }
    capacity = {name: _Capacity(Quantity(c["value"])) for name, c in described.get("capacity", {}).items()}
    return DeviceView.of(described["driver"], described.get("allowMultipleAllocations", False), attributes, capacity)


def encode(value: Any) -> Any:
    """A value in the form of the vectors."""
    kind = value.__class__
    if value is None:
        return {"null": None}
    if kind in (bool, str):
        return {"bool" if kind is bool else "string": value}
    if kind is int or kind is UInt:
        return {"int" if kind is int else "uint": int(value)}
    if kind is float:
        return {"double": values.go_float(value)}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if kind is Duration:
        return {"duration": str(value.nanos)}
    if kind is Timestamp:
        return {"timestamp": timestamp_text(value)}
    if kind is TypeValue:
        return {"type": value.name}
    if isinstance(value, list):
        return {"list": [encode(one) for one in value]}
    if isinstance(value, dict):
        return {"map": [[encode(values.decode_key(k)), encode(v)] for k, v in value.items()]}
    if kind is Optional:
        return {"optional": encode(value.value) if value.present else None}
    for cls, name in ((QuantityValue, "quantity"), (Semver, "semver"), (IP, "ip"), (CIDR, "cidr"), (URL, "url")):
        if kind is cls and not getattr(value, "pointer", False):
            return {name: str(value)}
    return {"other": values.type_name(value)}


def same(wanted: Any, given: Any) -> bool:
    """Return True if two encoded values are equal; the order in maps is ignored."""
    if not isinstance(wanted, dict) or not isinstance(given, dict):
        return bool(wanted == given)
    if "map" in wanted and "map" in given:
        one, other = wanted["map"], given["map"]
        return len(one) == len(other) and all(any(same(k, k2) and same(v, v2) for k2, v2 in other) for k, v in one)
    if "list" in wanted and "list" in given:
        return len(wanted["list"]) == len(given["list"]) and all(map(same, wanted["list"], given["list"]))
    if "optional" in wanted and "optional" in given:
        return same(wanted["optional"], given["optional"])
    if "other" in wanted and "other" in given:
        return bool(wanted["other"] == given["other"])
    if "double" in wanted and "double" in given:
        left, right = parse_double(wanted["double"]), parse_double(given["double"])
        assert left is not None
        assert right is not None
        return (math.isnan(left) and math.isnan(right)) or repr(left) == repr(right)
    if "timestamp" in wanted and "timestamp" in given:
        return parse_timestamp(wanted["timestamp"]) == parse_timestamp(given["timestamp"])
    return wanted == given


def same_text(wanted: str, given: str) -> bool:
    """Return True if two error texts are equal in their common length."""
    return wanted == given if len(wanted) <= SHORT else wanted[:SHORT] == given[:SHORT]


def run(folder: Path) -> Iterator[Result]:
    """One result per case of the folder."""
    devices = {name: view_of(d) for name, d in json.loads((folder / "devices.json").read_text()).items()}
    for file, path in vector_files(folder).items():
        for case in cases(path):
            if file == "conformance.jsonl":
                name = f"{case['file']}/{case['section']}/{case['name']}"
                difference = _judged(judge_conformance, case)
            elif file.startswith("admission-policies"):
                name, difference = case["id"], _judged(judge_policy, case)
            else:
                name, difference = case["id"], _judged(judge_selector, case, devices)
            yield file, name, not difference, difference


def _judged(judge: Any, *args: Any) -> str:
    try:
        return str(judge(*args))
    except Exception as error:
        return f"raised {error.__class__.__name__}: {error}"


# --- selectors


def judge_selector(case: dict[str, Any], devices: dict[str, DeviceView]) -> str:
    """The first difference, empty if there is none."""
    answer, env = case["answer"], case["env"]
    options = {
        "consumable_capacity": env["consumableCapacity"],
        "list_attributes": env["listAttributes"],
        "mode": env["mode"],
    }
    if answer.get("panic"):
        return _only_own_errors(case, options, devices)
    expression = case["expression"]
    refused: CompileError | None = None
    compiled: program.Program | None = None
    selector: CompiledSelector | None = None
    limits = {"cost_limit": case["costLimit"]} if case.get("costLimit") else {}
    try:
        selector = compile_selector(expression, **options, **limits)
        compiled = selector.program
    except CompileError as error:
        refused = error
        if error.text.startswith("must evaluate"):
            compiled = program.compile_expression(expression, device.environment(**options))
    wanted = answer.get("compileError")
    if (wanted is None) != (refused is None):
        return f"compile: wanted {wanted}, got {refused}"
    if wanted is not None and refused is not None and (wanted["type"], wanted["text"]) != (refused.type, refused.text):
        return f"compile: wanted {wanted['text']!r}, got {refused.text!r}"
    if compiled is not None and "checkedType" in answer and compiled.type.declared != answer["checkedType"]:
        return f"type: wanted {answer['checkedType']}, got {compiled.type.declared}"
    if selector is not None and "maxCost" in answer and selector.max_cost != answer["maxCost"]:
        return f"estimate: wanted {answer['maxCost']}, got {selector.max_cost}"
    if "admission" in answer or case["id"].split("-")[0] != "random":
        difference = _judge_admission(case, options, refused)
        if difference:
            return difference
    views = [devices[d] if isinstance(d, str) else view_of(d) for d in case.get("devices", ())]
    for position, (view, result) in enumerate(zip(views, answer.get("results") or (), strict=False)):
        if compiled is None:
            continue
        difference = _judge_result(view, result, compiled, selector)
        alternatives = result.get("unstable") or ()
        if difference and not any(
            not _judge_result(view, json.loads(other), compiled, selector) for other in alternatives
        ):
            return f"device {position}: {difference}"
    return ""


def _only_own_errors(case: dict[str, Any], options: dict[str, Any], devices: dict[str, DeviceView]) -> str:
    try:
        selector = compile_selector(case["expression"], **options)
        for described in case.get("devices", ()):
            selector.outcome(devices[described] if isinstance(described, str) else view_of(described))
    except (CompileError, EvaluationError):
        pass
    return ""


def _judge_admission(case: dict[str, Any], options: dict[str, Any], refused: CompileError | None) -> str:
    verdict = validate_selector(case["expression"], **options)
    wanted = case["answer"].get("admission")
    if wanted is None:
        return f"admission: accepted, got {verdict}" if verdict is not None else ""
    if verdict is None:
        return f"admission: wanted {wanted}, got accepted"
    given = verdict.reason
    if wanted != "FieldValueInvalid":
        given = f"{verdict.reason}: {verdict.detail}"
    return "" if wanted == given or wanted.startswith(given) else f"admission: wanted {wanted!r}, got {given!r}"


def _judge_result(
    view: DeviceView, result: dict[str, Any], compiled: program.Program, selector: CompiledSelector | None
) -> str:
    if "match" in result or "error" in result:
        assert selector is not None
        outcome = selector.outcome(view)
        difference = _compare(outcome.error, outcome.value, result.get("error"), result.get("match"))
        if difference:
            return difference
        if "cost" in result and outcome.cost != result["cost"]:
            return f"cost: wanted {result['cost']}, got {outcome.cost}"
        try:
            fast: Any = selector.decide(view)
        except EvaluationError as error:
            fast = error.text
        if fast != (outcome.value if outcome.error is None else outcome.error):
            return f"compiled: {fast!r} but evaluated {outcome.value!r} {outcome.error}"
    if view.failure or (view.first_list and selector is not None and not selector.list_attributes):
        return ""
    if "value" in result or "valueError" in result:
        try:
            outcome = compiled.evaluate({"device": view.root}, 1_000_000)
        except CompileError as error:
            outcome = program.Evaluation(None, error.text, 0)
        if "valueError" in result:
            if outcome.error is None or not same_text(result["valueError"], outcome.error):
                return f"value: wanted error {result['valueError']!r}, got {outcome.value!r} {outcome.error!r}"
        elif outcome.error is not None or not same(result["value"], encode(outcome.value)):
            shown = outcome.error if outcome.error is not None else encode(outcome.value)
            return f"value: wanted {result['value']}, got {shown!r}"
    return ""


def _compare(error: str | None, value: Any, wanted_error: str | None, wanted: Any) -> str:
    if wanted_error is not None:
        if error is None:
            return f"wanted error {wanted_error!r}, got {value!r}"
        return "" if same_text(wanted_error, error) else f"error: wanted {wanted_error!r}, got {error!r}"
    if error is not None:
        return f"wanted {wanted!r}, got error {error!r}"
    return "" if value == wanted and value.__class__ is wanted.__class__ else f"wanted {wanted!r}, got {value!r}"


# --- the suite of the CEL specification


def _type(spelled: Any) -> Type:
    return types.parse(spelled) if isinstance(spelled, str) else types.DYN


def _environment(case: dict[str, Any]) -> Environment:
    variables, functions = {}, {}
    for declared in case.get("typeEnv") or ():
        if "type" in declared:
            variables[declared["name"]] = _type(declared["type"])
        for overload in declared.get("overloads") or declared.get("function") or ():
            args = ", ".join(overload.get("params") or overload.get("args") or ())
            plain = str.maketrans("", "", "<>")
            signature = f"{args.translate(plain)} -> {overload['result'].translate(plain)}"
            made = declare(f"{overload.get('id') or overload['overloadId']}: {signature}")
            made = replace(made, member=bool(overload.get("member")))
            functions[declared["name"]] = (*functions.get(declared["name"], ()), made)
    return Environment(
        variables=variables,
        libraries=(*BASE_LIBRARIES, "bindings"),
        functions_extra=functions,
        container=case.get("container") or "",
    )


def decode(encoded: dict[str, Any]) -> Any:
    """Return the value of a vector."""
    ((kind, given),) = encoded.items()
    match kind:
        case "uint":
            return UInt(given)
        case "double":
            return parse_double(given)
        case "bytes":
            return base64.b64decode(given)
        case "duration":
            return Duration(int(given))
        case "timestamp":
            return parse_timestamp(given)
        case "type":
            return TypeValue(given)
        case "list":
            return [decode(one) for one in given]
        case "map":
            return {values.encode_key(decode(k)): decode(v) for k, v in given}
        case "optional":
            return Optional(decode(given)) if given is not None else values.NONE
    return given


def judge_conformance(case: dict[str, Any]) -> str:
    """The first difference from Kubernetes' environment, empty if there is none."""
    wanted = case["kubernetes"] if isinstance(case.get("kubernetes"), dict) else case["expect"]
    environment = _environment(case)
    macros = {} if case.get("disableMacros") else environment.macros
    try:
        if case.get("disableCheck"):
            root = parser.parse(case["expr"], macros)
        else:
            root = program.check(case["expr"], environment) if macros else _checked_plain(case["expr"], environment)
        compiled = program.Program(case["expr"], environment, root)
        compiled.instantiate()
    except (CompileError, parser.Invalid) as error:
        if "compileError" in wanted or "error" in wanted:
            return ""
        return f"does not compile: {error}, wanted {wanted}"
    if "compileError" in wanted:
        return f"compiles, wanted {wanted}"
    if "type" in wanted and not case.get("disableCheck") and compiled.type.declared != wanted["type"]:
        return f"type: wanted {wanted['type']}, got {compiled.type.declared}"
    if case.get("checkOnly") or ("value" not in wanted and "error" not in wanted):
        return ""
    bindings = {name: decode(value) for name, value in (case.get("bindings") or {}).items()}
    try:
        outcome = compiled.evaluate(bindings)
    except CompileError as error:
        outcome = program.Evaluation(None, error.text, 0)
    if "error" in wanted:
        return "" if outcome.error is not None else f"wanted an error, got {outcome.value!r}"
    if outcome.error is not None:
        return f"wanted {wanted['value']}, got error {outcome.error!r}"
    return (
        "" if same(wanted["value"], encode(outcome.value)) else f"wanted {wanted['value']}, got {encode(outcome.value)}"
    )


def _checked_plain(expression: str, environment: Environment) -> Any:
    from cathedra.cel.checking import checker

    root = parser.parse(expression, {})
    issues = checker.check(root, environment)
    if issues:
        raise program.refused(expression, issues)
    return root


# --- admission policies


def judge_policy(case: dict[str, Any]) -> str:
    """The first difference, empty if there is none."""
    policy = admission.compile_policy(case["policy"])
    answer = case["answer"]
    errors = [str(error) for error in policy.errors]
    if errors != answer["policyErrors"]:
        return f"policyErrors: wanted {answer['policyErrors']}, got {errors}"
    result = policy.evaluate(_input(case))
    decisions = [_plain(d) for d in result.decisions]
    if decisions != (answer.get("decisions") or []):
        return f"decisions: wanted {answer.get('decisions')}, got {decisions}"
    annotations = [_plain(a) for a in result.annotations]
    wanted = answer.get("auditAnnotations") or []
    return "" if annotations == wanted else f"auditAnnotations: wanted {wanted}, got {annotations}"


def _plain(made: Any) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__slots__ if getattr(made, name)}


def _input(case: dict[str, Any]) -> admission.Input:
    asked = case["request"]
    kind = dict(zip(("group", "version", "kind"), asked["kind"], strict=True))
    resource = dict(zip(("group", "version", "resource"), asked["resource"], strict=True))
    user = {
        "username": asked.get("username"),
        "uid": asked.get("uid"),
        "groups": asked.get("groups"),
        "extra": asked.get("extra"),
    }
    request = {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "subResource": asked.get("subResource"),
        "requestSubResource": asked.get("subResource"),
        "name": asked.get("name"),
        "namespace": asked.get("namespace"),
        "operation": asked["operation"],
        "userInfo": {k: v for k, v in user.items() if v},
    }
    request = {k: v for k, v in request.items() if v}
    request |= {"dryRun": bool(asked.get("dryRun")), "options": None}
    allowed = case.get("allowed") or ()

    def decide(question: AccessQuestion) -> AccessAnswer:
        what = question.resource + (f"/{question.subresource}" if question.subresource else "")
        asked_for = f"{question.verb} {question.path if question.path is not None else what}"
        if f"error {asked_for}" in allowed:
            return AccessAnswer(allowed=False, error=f"cannot tell about {asked_for}")
        return AccessAnswer(True, "listed") if asked_for in allowed else AccessAnswer(False, "not listed")

    return admission.Input(
        request=request,
        object=asked.get("object"),
        old_object=asked.get("oldObject"),
        params=case.get("params"),
        namespace=case.get("namespaceObject"),
        decide=decide,
    )
