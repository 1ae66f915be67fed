"""Field errors and their paths."""

from __future__ import annotations

from cathedra.api.field import ErrorList, FieldPath


def test_a_path_grows_by_names_indexes_and_keys() -> None:
    path = FieldPath("spec").child("devices", "requests").index(0).child("capacity").key("example.com/x")
    assert path == "spec.devices.requests[0].capacity[example.com/x]"


def test_every_kind_of_error_has_its_words() -> None:
    errors = ErrorList()
    errors.required("a")
    errors.required("a", "why")
    errors.invalid("b", 1, "must be greater than zero")
    errors.invalid("b", None, "field is immutable")
    errors.not_supported("c", "x", ("b", "a"))
    errors.not_supported("c", "<&>\x7f", ("b", "a"))
    errors.string_not_among("c", "<&>\x7f", ("b", "a"))
    errors.duplicate("d", "x")
    errors.not_found("e", "x")
    errors.forbidden("f", "no")
    errors.too_long("g", 3)
    errors.too_many("h", 4, 3)
    errors.internal("i", "broken")
    assert [str(error) for error in errors] == [
        "a: Required value",
        "a: Required value: why",
        "b: Invalid value: 1: must be greater than zero",
        "b: Invalid value: null: field is immutable",
        'c: Unsupported value: "x": supported values: "a", "b"',
        'c: Unsupported value: "\\u003c\\u0026\\u003e\x7f": supported values: "a", "b"',
        'c: Unsupported value: "<&>\\x7f": supported values: "b", "a"',
        'd: Duplicate value: "x"',
        'e: Not found: "x"',
        "f: Forbidden: no",
        "g: Too long: may not be more than 3 bytes",
        "h: Too many: 4: must have at most 3 items",
        "i: Internal error: broken",
    ]
