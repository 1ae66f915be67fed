"""From a definition to a kind that the server runs, and how its instances are written."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.custom.kinds import kind_of_definition
from cathedra.apiserver.custom.objects import content, with_content
from cathedra.kinds.definition import RequestContext, ResourceDefinition
from cathedra.releases import FeatureGates
from tests.unit.apiserver.custom import things

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1, "maximum": 9}}},
        "status": OPEN,
    },
}


def version(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": SCHEMA}, **more}


def kind(*versions: dict[str, Any]) -> ResourceDefinition[Any]:
    body = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "shortNames": ["th"]},
            "versions": list(versions),
        },
    }
    return kind_of_definition(from_dict(CustomResourceDefinition, body))


def context(api_version: str = "example.com/v1") -> RequestContext:
    return RequestContext(gates=FeatureGates.for_release(), now=0.0, api_version=api_version)


ONE = version("v1", storage=True, subresources={"status": {}})


def instance(definition: ResourceDefinition[Any], generation: int = 0, **values: Any) -> Any:
    return with_content(definition.type, ObjectMeta(name="a", generation=generation), values)


def test_versions_come_in_the_order_of_preference_and_only_if_served() -> None:
    found = kind(version("v1alpha1"), ONE, version("v2", served=False), version("v1beta1"))
    assert [one.name for one in found.versions] == ["v1", "v1beta1", "v1alpha1"]
    assert (found.kind, found.plural, found.namespaced, found.short_names) == ("Thing", "things", True, ("th",))


def test_a_deprecated_version_warns_in_its_own_words_or_in_ours() -> None:
    found = kind(ONE, version("v1beta1", deprecated=True), version("v1beta2", deprecated=True, deprecationWarning="go"))
    assert [one.deprecation_warning for one in found.versions] == ["", "go", "example.com/v1beta1 Thing is deprecated"]


def test_columns_and_selectable_fields_read_the_instance() -> None:
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    found = kind(ONE | {"additionalPrinterColumns": columns, "selectableFields": [{"jsonPath": ".spec.size"}]})
    one = instance(found, spec={"size": 3})
    assert [column.name for column in found.columns] == ["Name", "Size"]
    assert found.cells is not None
    assert found.cells(one, 0.0) == ["a", 3]
    assert found.field_selectors["spec.size"](one) == "3"


def test_a_new_instance_has_no_status_and_the_first_generation() -> None:
    found = kind(ONE)
    made = found.strategy.prepare_create(instance(found, spec={"size": 2}, status={"x": 1}), context())
    assert content(made) == {"spec": {"size": 2}}
    assert made.metadata.generation == 1


def test_a_change_of_the_spec_counts_and_one_of_the_status_is_not_taken() -> None:
    found = kind(ONE)
    old = instance(found, generation=4, spec={"size": 2}, status={"x": 1})
    changed = found.strategy.prepare_update(instance(found, spec={"size": 3}, status={"x": 2}), old, context())
    assert content(changed) == {"spec": {"size": 3}, "status": {"x": 1}}
    assert changed.metadata.generation == 5
    same = found.strategy.prepare_update(instance(found, spec={"size": 2}, status={"x": 2}), old, context())
    assert same.metadata.generation == 4


def test_the_status_is_written_alone() -> None:
    found = kind(ONE)
    old = instance(found, generation=4, spec={"size": 2})
    new = instance(found, spec={"size": 7}, status={"x": 1})
    new = replace(new, metadata=replace(new.metadata, labels={"a": "b"}))
    written = found.subresources["status"].prepare_update(new, old, context())
    assert content(written) == {"spec": {"size": 2}, "status": {"x": 1}}
    assert written.metadata.labels == {}


def test_defaults_are_filled_in_and_the_schema_is_checked() -> None:
    found = kind(ONE)
    made = found.strategy.default(instance(found, spec={}), context())
    assert content(made) == {"spec": {"size": 1}}
    errors = found.strategy.validate_create(instance(found, spec={"size": 10}), context())
    assert [error.field for error in errors] == ["spec.size"]


def test_a_row_of_a_table_has_a_bounded_text() -> None:
    columns = [{"name": f"c{number}", "type": "string", "jsonPath": ".spec.size"} for number in range(100)]
    definition = things.kind(things.version() | {"additionalPrinterColumns": columns})
    assert definition.cells is not None
    row = definition.cells(things.thing(definition, spec={"size": "x" * 10_000}), 0.0)
    assert len(row) == 101
    assert sum(len(cell) for cell in row[1:]) == 64 * 1024
