"""Rules of classes in 1.31: docs/spec/api.md §7.4."""

from __future__ import annotations

from cathedra.classic.controlplane.kinds.definitions import ControlledClassStrategy
from cathedra.classic.controlplane.kinds.types import suitable_nodes
from tests.unit.classic.controlplane.kinds.objects import context, device_class
from tests.unit.kinds.objects import created, texts, updated

NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpus", "operator": "Exists"}]}]}
STRATEGY = ControlledClassStrategy()


def test_suitable_nodes_are_checked_under_kubernetes_short_path() -> None:
    assert texts(created(STRATEGY, device_class(suitableNodes=NODES), context())[1]) == []
    (error,) = texts(created(STRATEGY, device_class(suitableNodes={"nodeSelectorTerms": []}), context())[1])
    assert error.startswith("suitableNodes.nodeSelectorTerms: Required value")


def test_without_the_gate_suitable_nodes_are_dropped_unless_stored() -> None:
    closed, wanted = context(controllers=False), device_class(suitableNodes=NODES)
    assert suitable_nodes(created(STRATEGY, wanted, closed)[0]) is None
    assert suitable_nodes(updated(STRATEGY, wanted, device_class(), closed)[0]) is None
    assert suitable_nodes(updated(STRATEGY, wanted, wanted, closed)[0]) is not None


def test_expressions_may_be_long_and_configuration_large() -> None:
    """Limits came with 1.32."""
    expression = " && ".join(["true"] * 3000)
    parameters = {"text": "x" * 11_000}
    made = device_class(
        selectors=[{"cel": {"expression": expression}}],
        config=[{"opaque": {"driver": "d.example.com", "parameters": parameters}}],
    )
    assert texts(created(STRATEGY, made, context())[1]) == []
