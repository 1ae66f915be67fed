"""The form that a client wants."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.status import StatusError
from cathedra.apiserver.http.answers.negotiation import (
    FOR_PLAIN_JSON,
    JSON_FORM,
    AnswerForm,
    fit_for_list,
    fit_for_object,
    negotiate,
)

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"


def refusal(accept: str, **options: bool) -> StatusError:
    with pytest.raises(StatusError) as raised:
        negotiate(accept, **options)
    return raised.value


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("text/html, */*", JSON),
        (YAML, YAML),
        (f"{PROTOBUF}, {JSON}", PROTOBUF),
        (f"{PROTOBUF};q=0.5, {JSON};q=0.9", JSON),
        (f"{JSON};q=0.5,{YAML}", YAML),
        (f"{JSON}; charset=utf-8", JSON),
        (f"{JSON};q=0, {YAML};q=0.1", YAML),
        (f"{JSON};q=much", JSON),
        (f",,{YAML}", YAML),
    ],
)
def test_the_best_of_what_is_acceptable_is_taken(accept: str, media_type: str) -> None:
    assert negotiate(accept) == AnswerForm(media_type)


@pytest.mark.parametrize("accept", sorted(FOR_PLAIN_JSON))
@pytest.mark.parametrize("options", [{"protobuf": False}, {"listing": True}, {"listing": True, "protobuf": False}, {}])
def test_what_needs_no_negotiation_gives_plain_json(accept: str, options: dict[str, bool]) -> None:
    assert negotiate(accept, **options) == JSON_FORM


def test_of_equally_good_forms_the_first_is_taken() -> None:
    assert negotiate(f"{YAML},{JSON}").media_type == YAML
    assert negotiate(f"{JSON},{YAML}").media_type == JSON


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("wanted", ["Table", "PartialObjectMetadata", "PartialObjectMetadataList"])
def test_objects_may_be_turned_into_what_meta_knows(wanted: str, version: str) -> None:
    assert negotiate(f"{JSON};as={wanted};v={version};g=meta.k8s.io") == AnswerForm(JSON, wanted, version)


def test_a_table_that_cannot_be_had_gives_way_to_the_next_form() -> None:
    assert negotiate(f"{JSON};as=Table;v=v9;g=meta.k8s.io, {JSON}") == JSON_FORM
    assert negotiate(f"{TABLE}, {JSON}", transforms=False) == JSON_FORM
    assert negotiate(f"{TABLE}, {JSON}").transform == "Table"


def test_kubectls_own_header_asks_for_a_table() -> None:
    older = f"{JSON};as=Table;v=v1beta1;g=meta.k8s.io"
    assert negotiate(f"{TABLE},{older},{JSON}") == AnswerForm(JSON, "Table", "v1")


def test_nothing_acceptable_is_an_error_that_offers_what_there_is() -> None:
    error = refusal("text/html")
    assert error.code == 406
    assert str(error) == f"406: Not Acceptable\n\nAvailable representations: {JSON}, {YAML}, {PROTOBUF}"
    error = refusal("text/html", listing=True)
    assert str(error).endswith(f"{PROTOBUF}, {JSON};stream=watch, {PROTOBUF};stream=watch")


def test_a_known_form_that_is_not_served_here_is_told_in_other_words() -> None:
    assert str(refusal(YAML, streaming=True)) == (
        f"only the following media types are accepted: {JSON};stream=watch, {PROTOBUF};stream=watch"
    )
    assert str(refusal(f"{JSON};as=Chair;v=v1;g=meta.k8s.io")) == (
        f"only the following media types are accepted: {JSON}, {YAML}, {PROTOBUF}"
    )


def test_custom_resources_have_no_protobuf() -> None:
    assert negotiate(f"{PROTOBUF},{JSON}", protobuf=False) == JSON_FORM
    assert refusal(PROTOBUF, protobuf=False).code == 406


def test_a_header_beyond_all_measure_is_refused_unread() -> None:
    error = refusal("a/b," * 3000)
    assert (error.code, str(error)) == (400, "the Accept header is longer than 8192 bytes")


@given(st.text(max_size=60))
def test_any_header_is_understood_or_refused(accept: str) -> None:
    with contextlib.suppress(StatusError):
        assert negotiate(accept).media_type in (JSON, YAML, PROTOBUF)


def test_one_object_is_no_list_and_a_list_no_object() -> None:
    listed, single = AnswerForm(JSON, "PartialObjectMetadataList"), AnswerForm(JSON, "PartialObjectMetadata")
    assert fit_for_list(listed, "v1.Pod") is listed
    assert fit_for_object(single, "v1.Pod") is single
    with pytest.raises(StatusError, match=r"but the requested object is not a list \(\*v1\.Pod\)"):
        fit_for_object(listed, "v1.Pod")
    with pytest.raises(StatusError, match=r"but the requested object is a list \(\*v1\.PodList\)"):
        fit_for_list(single, "v1.Pod")
