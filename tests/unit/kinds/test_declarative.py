"""How tags are followed through an object, and what a change leaves out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath
from cathedra.api.struct import KubeStruct, always
from cathedra.kinds import declarative
from cathedra.kinds.declarative import (
    Check,
    FieldTags,
    TypeTags,
    declared_errors,
    max_length,
    merged,
    minimum,
    short_name,
)
from tests.unit.kinds.objects import gates, texts


class Part(KubeStruct, frozen=True):
    """An element of a list, and the value of a map."""

    name: str = always(str)
    size: int = 0
    weight: int | None = None
    colour: str | None = None


class Whole(KubeStruct, frozen=True):
    """An object."""

    name: str = always(str)
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    words: tuple[str, ...] = ()
    named: dict[str, Part] = {}


def found(tags: TypeTags, new: Whole, old: Whole | None = None, *, beta: bool = True) -> list[str]:
    return texts(declared_errors(tags, new, old, beta=beta))


def one(**fields: FieldTags) -> TypeTags:
    return TypeTags(fields)


NAMED = TypeTags({"name": FieldTags(required=True, checks=(max_length(2), short_name))})


def test_a_required_field_is_there_and_an_optional_one_is_checked_when_it_is() -> None:
    assert found(one(name=FieldTags(required=True)), Whole()) == ["name: Required value"]
    assert found(one(name=FieldTags(checks=(short_name,))), Whole()) == []
    assert found(one(part=FieldTags(of=NAMED)), Whole(part=Part())) == ["part.name: Required value"]


def test_a_part_that_was_sound_is_looked_at_again_where_it_may_be_otherwise() -> None:
    wanted = FieldTags(of=NAMED)
    sound, faulty = Part(name="ab"), Part(name="abc")
    too_long = "part.name: Too long: may not be more than 2 characters"
    for _ in range(2):
        assert found(one(part=wanted), Whole(part=sound)) == []
        assert found(one(part=wanted), Whole(part=faulty)) == [too_long]
        assert found(one(part=FieldTags(of=one(size=FieldTags(required=True)))), Whole(part=sound)) == [
            "part.size: Required value"
        ]
        # Without beta rules it has no errors; with them the same part may have some.
        assert found(one(part=wanted), Whole(part=faulty), beta=False) == []
        assert found(one(part=wanted), Whole(part=sound), Whole(part=faulty)) == []
        assert found(one(part=wanted), Whole(part=faulty), Whole(part=sound)) == [too_long]


def test_the_checks_of_a_field_come_in_their_order() -> None:
    assert [text[:16] for text in found(NAMED, Whole(name="ABC"))] == ["name: Too long: ", "name: Invalid va"]


def test_an_empty_pointer_is_a_value() -> None:
    weighed = one(part=FieldTags(of=one(weight=FieldTags(checks=(minimum(1),)), size=FieldTags(checks=(minimum(1),)))))
    assert found(weighed, Whole(part=Part(weight=0, size=0))) == [
        "part.weight: Invalid value: 0: must be greater than or equal to 1"
    ]


def test_of_too_long_a_list_nothing_else_is_said() -> None:
    tags = one(parts=FieldTags(max_items=1, unique=("name",), of=NAMED))
    assert found(tags, Whole(parts=(Part(), Part()))) == ["parts: Too many: 2: must have at most 1 items"]


def test_elements_are_told_apart_by_their_keys() -> None:
    tags = one(parts=FieldTags(unique=("name", "weight")))
    parts = (Part(name="a"), Part(name="a", weight=1), Part(name="a", size=2), Part(name="a"))
    assert found(tags, Whole(parts=parts)) == [
        'parts[2]: Duplicate value: {"name":"a","size":2}',
        'parts[3]: Duplicate value: {"name":"a"}',
    ]
    assert found(one(words=FieldTags(unique=())), Whole(words=("x", "y", "x"))) == ['words[2]: Duplicate value: "x"']


def test_keys_of_a_map_are_reported_at_the_map_and_values_at_their_key() -> None:
    tags = one(named=FieldTags(keys=(short_name,), of=NAMED))
    assert [text[:30] for text in found(tags, Whole(named={"a.b": Part(), "c": Part(name="d")}))] == [
        'named: Invalid value: "a.b": m',
        "named[a.b].name: Required valu",
    ]


def union(part: Part, before: Part | None = None) -> list[str]:
    tags = one(part=FieldTags(of=TypeTags(union=("weight", "colour"))))
    return found(tags, Whole(part=part), Whole(name="old", part=before) if before is not None else None)


def test_of_a_union_exactly_one_member_is_set() -> None:
    assert union(Part(weight=0)) == []
    assert union(Part()) == ['part: Invalid value: "": must specify one of: `weight`, `colour`']
    both = Part(weight=0, colour="red")
    assert union(both) == ['part: Invalid value: "{weight, colour}": must specify exactly one of: `weight`, `colour`']
    assert union(both, Part(weight=1, colour="blue")) == [], "the members are the same as before"
    assert len(union(both, Part(weight=1))) == 1


# --- changes


def test_what_did_not_change_is_not_looked_at() -> None:
    bad: Any = {"name": "A", "parts": (Part(name="B"),), "named": {"C": Part(name="D")}}
    tags = one(
        name=FieldTags(checks=(short_name,)),
        parts=FieldTags(unique=("name",), of=NAMED),
        named=FieldTags(keys=(short_name,), of=NAMED),
    )
    assert len(found(tags, Whole(**bad))) == 4
    assert found(tags, Whole(**bad, words=("x",)), Whole(**bad)) == []
    more = bad | {"parts": (Part(name="b"), *bad["parts"]), "named": bad["named"] | {"E": Part(name="e")}}
    assert [text.partition(":")[0] for text in found(tags, Whole(**more), Whole(**bad))] == ["named"]


def test_an_element_without_a_key_is_always_new() -> None:
    tags = one(parts=FieldTags(of=NAMED))
    old = Whole(parts=(Part(name="B"),))
    assert len(found(tags, Whole(parts=(Part(name="B"), Part(name="a"))), old)) == 1


def test_an_immutable_field_keeps_what_is_below_it_from_being_looked_at() -> None:
    tags = one(part=FieldTags(immutable=True, of=NAMED))
    assert found(tags, Whole(part=Part()), Whole(part=Part(name="a"))) == [
        "part: Invalid value: null: field is immutable"
    ]
    assert len(found(tags, Whole(part=Part()), Whole())) == 1
    assert found(tags, Whole(part=Part())) == ["part.name: Required value"]


def test_a_field_may_be_set_and_cleared_where_it_may_not_be_changed() -> None:
    tags = one(part=FieldTags(unmodified=True))
    first, second = Whole(part=Part(name="a")), Whole(part=Part(name="b"))
    assert found(tags, second, first) == ["part: Invalid value: null: field cannot be modified once set"]
    assert found(tags, first, Whole()) == found(tags, Whole(), first) == []


# --- stability


def test_without_the_gate_only_stable_rules_speak() -> None:
    inner = TypeTags({"name": FieldTags(required=True, stable=True)}, union=("weight", "colour"))
    tags = one(name=FieldTags(required=True), part=FieldTags(of=inner))
    assert len(found(tags, Whole(part=Part()))) == 3
    assert found(tags, Whole(part=Part()), beta=False) == ["part.name: Required value"]


def errors(*found: FieldError) -> ErrorList:
    return ErrorList(found)


def required(field: str) -> FieldError:
    return FieldError(ErrorType.REQUIRED, field, "", "by hand")


def declared(field: str) -> FieldError:
    return FieldError(ErrorType.REQUIRED, field, "", "by tag")


def test_an_error_of_a_rule_gives_way_to_that_of_a_tag() -> None:
    found = merged(errors(required("a"), required("b")), errors(declared("a"), declared("c")))
    assert texts(found) == [
        "b: Required value: by hand",
        "a: Required value: by tag",
        "c: Required value: by tag",
    ]


def test_errors_of_another_type_or_origin_stay() -> None:
    other = FieldError(ErrorType.INVALID, "a", 1, "by hand")
    beside = FieldError(ErrorType.REQUIRED, "a", "", "beside", origin="another rule")
    assert merged(errors(other, beside), errors(declared("a"))) == [other, beside, declared("a")]


def test_paths_of_another_version_mean_the_same_field() -> None:
    found = merged(
        errors(required("spec.a")), errors(declared("spec.basic.a")), lambda path: path.replace("basic.", "")
    )
    assert texts(found) == ["spec.basic.a: Required value: by tag"]


def test_without_tags_nothing_changes() -> None:
    assert merged(errors(required("a")), ErrorList()) == [required("a")]


def test_a_type_without_tags_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarative, "declared_errors", None)
    found = errors(required("a"))
    assert declarative.with_tags(found, TypeTags(), ConfigMap(), None, gates()) is found


def test_a_union_may_have_one_member() -> None:
    tags = TypeTags({"part": FieldTags(of=TypeTags(union=("weight",)))})
    assert found(tags, Whole(part=Part(weight=1))) == []
    assert found(tags, Whole(part=Part())) == ['part: Invalid value: "": must specify one of: `weight`']


# Tags as data.


def test_a_field_without_tags_may_hold_anything_or_nothing() -> None:
    said = msgspec.structs.asdict(FieldTags())
    assert not any(said.values()), said


def test_a_type_may_be_a_union_and_nothing_else() -> None:
    assert dict(TypeTags(union=("a", "b")).fields) == {}


def test_tags_are_values_that_many_types_share() -> None:
    shared = FieldTags(required=True)
    with pytest.raises(AttributeError):
        shared.required = False  # type: ignore[misc]  # that it cannot be set is what is tested
    assert shared == FieldTags(required=True)


# Checks that tags name, in the words of declarative validation.


def found_formats(check: Check, value: object) -> list[str]:
    errors = ErrorList()
    check(errors, FieldPath("f"), value)
    return [text.removeprefix("f: ") for text in texts(errors)]


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (declarative.short_name, "a-b"),
        (declarative.long_name, "a.b"),
        (declarative.long_name_caseless, "A.b"),
        (declarative.label_key, "a.b/C_d"),
        (declarative.uuid, "01234567-89ab-cdef-0123-456789abcdef"),
        (declarative.pool_name, "a/b.c"),
        (declarative.extended_resource_name, "example.com/gpu"),
        (declarative.fully_qualified_name, "a.b/c_d"),
        (declarative.fully_qualified_name, "a/b/c"),
        (declarative.max_length(2), "äö"),
        (declarative.max_bytes(4), "äö"),
        (declarative.minimum(0), 0),
        (declarative.one_of("a", "b"), "b"),
    ],
)
def test_what_is_well_formed_passes(check: Check, value: object) -> None:
    assert found_formats(check, value) == []


@pytest.mark.parametrize(
    ("check", "value", "wanted"),
    [
        (declarative.short_name, "a" * 64, "must be no more than 63 bytes"),
        (declarative.short_name, "a.b", "must not contain dots"),
        (declarative.long_name, "a" * 254, "must be no more than 253 bytes"),
        (declarative.uuid, "{01234567-89ab-cdef-0123-456789abcdef}", "must be a lowercase UUID in 8-4-4-4-12 format"),
        (declarative.pool_name, "a/", "segment 1: must not be empty"),
        (declarative.extended_resource_name, "a/kubernetes.io/b", 'must not have "kubernetes.io/" domain'),
        (declarative.minimum(1), 0, "must be greater than or equal to 1"),
    ],
)
def test_what_is_not_is_invalid(check: Check, value: object, wanted: str) -> None:
    assert any(text.endswith(wanted) for text in found_formats(check, value)), found_formats(check, value)


def test_an_extended_resource_is_no_quota_and_fits_into_one() -> None:
    assert [
        text.partition(": ")[2].partition(": ")[2][:44]
        for text in found_formats(declarative.extended_resource_name, "requests.a")
    ] == [
        "a name must be a domain-prefixed path, such ",
        'must not have "requests." prefix',
    ]
    assert found_formats(declarative.extended_resource_name, f"{'a' * 250}/b")[-1].endswith(
        "must be no more than 253 bytes"
    )


def test_sizes_are_in_characters_or_bytes() -> None:
    assert found_formats(declarative.max_length(1), "äö") == ["Too long: may not be more than 1 characters"]
    assert found_formats(declarative.max_bytes(3), "äö") == ["Too long: may not be more than 3 bytes"]


def test_what_is_forbidden_needs_no_words() -> None:
    assert found_formats(declarative.forbidden, "x") == ["Forbidden"]
