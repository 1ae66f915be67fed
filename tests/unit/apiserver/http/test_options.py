"""The options of writes and lists."""

from __future__ import annotations

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.http.options import list_options, write_query
from cathedra.apiserver.pipeline.operations import WriteQuery
from cathedra.client.transport import ListOptions
from tests.unit.apiserver.http.requests import request


def asked(query: str, kind: str = "CreateOptions", *, apply: bool = False) -> WriteQuery:
    return write_query(request(f"/?{query}", user_agent="kubectl/v1.37 (linux)"), kind, apply=apply)


def causes(query: str, kind: str = "CreateOptions", *, apply: bool = False) -> list[str]:
    with pytest.raises(StatusError) as refused:
        asked(query, kind, apply=apply)
    assert refused.value.code == 422
    return [f"{cause.field}: {cause.message}" for cause in refused.value.causes]


def test_a_write_without_options_is_validated_with_warnings_and_managed_by_the_client() -> None:
    assert asked("") == WriteQuery(False, "kubectl", "Warn", False)
    assert asked("fieldValidation=") == asked("")


def test_options_are_read() -> None:
    assert asked("dryRun=All&fieldManager=me&fieldValidation=Strict") == WriteQuery(True, "me", "Strict", False)
    assert asked("fieldManager=me&force=true", "PatchOptions", apply=True).force


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("dryRun=Some", 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        (
            "fieldValidation=Hard",
            'fieldValidation: Unsupported value: "Hard": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ("fieldManager=" + "x" * 129, "fieldManager: Too long: may not be more than 128 bytes"),
        ("fieldManager=a%07", 'fieldManager: Invalid value: "a\\a": invalid character U+0007 (at position 1)'),
    ],
)
def test_options_that_make_no_sense_are_refused(query: str, wanted: str) -> None:
    assert causes(query) == [wanted]


def test_an_apply_names_its_manager_and_no_other_patch_is_forced() -> None:
    assert causes("", "PatchOptions", apply=True) == ["fieldManager: Required value: is required for apply patch"]
    assert causes("force=true", "PatchOptions") == ["force: Forbidden: may not be specified for non-apply patch"]
    assert asked("force=true", "UpdateOptions").force


def test_a_long_user_agent_is_cut_to_what_a_manager_may_be() -> None:
    made = write_query(request("/", user_agent="x" * 300 + "/1"), "CreateOptions")
    assert made.field_manager == "x" * 128


def test_a_list_says_what_it_selects_and_how_much_of_it() -> None:
    query = "labelSelector=a%3Db&fieldSelector=c%3Dd&limit=5&continue=t&resourceVersion=7&resourceVersionMatch=Exact"
    assert list_options(request(f"/?{query}")) == ListOptions(
        label_selector="a=b",
        field_selector="c=d",
        limit=5,
        continue_="t",
        resource_version="7",
        resource_version_match="Exact",
    )
    with pytest.raises(StatusError):
        list_options(request("/?limit=many"))
