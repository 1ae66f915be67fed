"""Errors of rules and of tags in one list."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.field import ErrorList, ErrorType, FieldError
from cathedra.kinds.declarative import merging
from cathedra.kinds.declarative.merging import merged
from cathedra.kinds.declarative.tags import TypeTags
from tests.unit.kinds.objects import gates, texts


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
    monkeypatch.setattr(merging, "declared_errors", None)
    found = errors(required("a"))
    assert merging.with_tags(found, TypeTags(), ConfigMap(), None, gates()) is found
