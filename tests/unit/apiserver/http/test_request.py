"""One request, read as far as it is needed."""

from __future__ import annotations

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.http.request import BODY_LIMIT, ClientGone, Request, list_options, write_query
from cathedra.apiserver.pipeline.operations import WriteQuery
from cathedra.client.transport import ListOptions
from tests.unit.apiserver.http.requests import request


def test_a_parameter_may_be_given_more_than_once_and_empty() -> None:
    asked = request("/?a=1&a=2&b=&c=x%20y")
    assert asked.query == {"a": ["1", "2"], "b": [""], "c": ["x y"]}
    assert (asked.parameter("a"), asked.parameter("b"), asked.parameter("z")) == ("1", "", "")


@pytest.mark.parametrize(
    ("query", "set_"), [("", False), ("w=true", True), ("w=1", True), ("w=false", False), ("w=0", False)]
)
def test_a_flag_is_set_in_the_words_of_go(query: str, set_: bool) -> None:
    assert request(f"/?{query}").flag("w") is set_


def test_a_number_is_one_of_64_bits() -> None:
    assert request("/?n=7").number("n") == 7
    assert request("/").number("n") is None
    for text in ("x", "1.5", str(2**63)):
        with pytest.raises(StatusError) as refused:
            request(f"/?n={text}").number("n")
        assert refused.value.code == 400


def test_a_watch_is_known_by_its_query() -> None:
    assert request("/api/v1/pods?watch=true").info.verb == "watch"
    assert request("/api/v1/pods?watch=false").info.verb == "list"


def test_a_query_of_more_parameters_than_any_client_sends_is_refused_unread() -> None:
    asked = request("/?" + "&".join(f"a{n}=1" for n in range(1001)))
    assert asked.query == {}
    with pytest.raises(StatusError, match="the query has more than 1000 parameters"):
        asked.check_query()
    request("/?" + "&".join(f"a{n}=1" for n in range(1000))).check_query()


def test_headers_are_found_by_their_names_in_lower_case() -> None:
    asked = request("/", user_agent="kubectl/1", accept="a")
    assert (asked.header(b"user-agent"), asked.header(b"missing")) == ("kubectl/1", "")
    asked.scope["headers"].append((b"accept", b"b"))
    twice = Request(asked.scope, asked.receive)
    assert (twice.header(b"accept"), twice.header_values(b"accept")) == ("b", ["a", "b"])


async def test_a_body_comes_in_parts_and_is_read_once() -> None:
    asked = request("/", "POST", chunks=(b"ab", b"", b"cd"))
    assert asked.read_body == b""
    assert await asked.body() == await asked.body() == asked.read_body == b"abcd"


async def test_a_client_that_goes_away_in_the_middle_is_gone() -> None:
    with pytest.raises(ClientGone):
        await request("/", "POST", chunks=()).body()


async def test_a_body_beyond_three_mebibytes_is_refused_before_its_end() -> None:
    half = b"x" * (BODY_LIMIT // 2)
    assert len(await request("/", "POST", chunks=(half, half)).body()) == BODY_LIMIT
    with pytest.raises(StatusError) as refused:
        await request("/", "POST", chunks=(half, half, b"x", half)).body()
    assert (refused.value.code, refused.value.status.reason) == (413, "RequestEntityTooLarge")


def test_the_size_of_a_body_is_known_before_it_has_come() -> None:
    assert request(**{"content-length": "1234"}).announced_size == 1234
    assert request(**{"content-length": "many"}).announced_size == 0
    assert request(**{"transfer-encoding": "chunked"}).announced_size == BODY_LIMIT
    assert request().announced_size == 0


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
