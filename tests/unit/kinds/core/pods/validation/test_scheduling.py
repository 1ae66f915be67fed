"""Rules of tolerations, gates, affinity and spread."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation.scheduling import (
    validate_affinity,
    validate_gates,
    validate_spread,
    validate_tolerations,
)
from tests.unit.kinds.objects import texts

PATH = FieldPath("x")


@pytest.mark.parametrize(
    ("toleration", "wanted"),
    [
        ({"key": "a", "operator": "Exists"}, []),
        ({"operator": "Exists"}, []),
        ({"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}, []),
        ({"value": "b"}, ['x[0].operator: Invalid value: "": operator must be Exists when `key` is empty']),
        (
            {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5},
            ["x[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
        ),
        ({"key": "a", "operator": "Exists", "value": "b"}, ["x[0].operator: Invalid value: "]),
        ({"key": "a", "operator": "Near"}, ['x[0].operator: Unsupported value: "Near": supported values: ']),
        ({"key": "a", "effect": "Later"}, ['x[0].effect: Unsupported value: "Later": supported values: ']),
        ({"key": "a", "value": "-"}, ['x[0].operator: Invalid value: "-": a valid label must be']),
    ],
)
def test_the_parts_of_a_toleration_agree(toleration: dict[str, Any], wanted: list[str]) -> None:
    errors = ErrorList()
    validate_tolerations(errors, PATH, [from_dict(core_v1.Toleration, toleration)])
    found = texts(errors)
    assert len(found) == len(wanted)
    assert all(one.startswith(start) for one, start in zip(found, wanted, strict=True))


def test_gates_have_names_of_their_own() -> None:
    errors = ErrorList()
    gates = [core_v1.PodSchedulingGate(name=name) for name in ("a.b/c", "d", "a.b/c", "e f")]
    validate_gates(errors, PATH, gates)
    first, second = texts(errors)
    assert first == 'x[2]: Duplicate value: "a.b/c"'
    assert second.startswith('x[3]: Invalid value: "e f"')


def affinity(**kinds: Any) -> list[str]:
    errors = ErrorList()
    validate_affinity(errors, PATH, from_dict(core_v1.Affinity, kinds))
    return texts(errors)


def test_no_affinity_is_fine() -> None:
    errors = ErrorList()
    validate_affinity(errors, PATH, None)
    assert texts(errors) == []


@pytest.mark.parametrize("weight", [0, 101])
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_weights_lie_between_1_and_100(kind: str, weight: int) -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    term = {"weight": weight, "podAffinityTerm": {"topologyKey": "zone"}}
    assert affinity(**{kind: {preferred: [{**term, "weight": 1}, term]}}) == [
        f"x.{kind}.{preferred}[1].weight: Invalid value: {weight}: must be in the range 1-100"
    ]


def test_a_term_about_pods_names_a_topology() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert affinity(podAffinity={required: [{}]}) == [
        f"x.podAffinity.{required}[0].topologyKey: Required value: can not be empty"
    ]


def test_a_spread_constraint_is_complete_and_stands_once() -> None:
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

    def found(*given: dict[str, Any]) -> list[str]:
        errors = ErrorList()
        validate_spread(errors, PATH, [from_dict(core_v1.TopologySpreadConstraint, one) for one in given])
        return texts(errors)

    assert found(good, {**good, "whenUnsatisfiable": "ScheduleAnyway"}) == []
    assert found({**good, "maxSkew": 0}) == ["x[0].maxSkew: Invalid value: 0: must be greater than zero"]
    assert found({**good, "topologyKey": ""}) == ["x[0].topologyKey: Required value: can not be empty"]
    (wrong,) = found({**good, "whenUnsatisfiable": "Never"})
    assert wrong.startswith('x[0].whenUnsatisfiable: Unsupported value: "Never"')
    assert found(good, good) == ['x[1].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"']
