"""Formats of names and addresses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api import formats

letters = st.text(st.sampled_from("ab1-."), min_size=1, max_size=12)


@settings(max_examples=120)
@given(letters)
def test_a_subdomain_is_made_of_labels(text: str) -> None:
    parts = text.split(".")
    assert (not formats.dns_subdomain(text)) == all(not formats.dns_label(part) for part in parts)


@settings(max_examples=60)
@given(letters)
def test_every_label_is_a_label_value_and_a_name(text: str) -> None:
    if not formats.dns_label(text):
        assert not formats.label_value(text)
        assert not formats.qualified_name(text)


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (formats.dns_label, "a" * 63, "a" * 64),
        (formats.dns_subdomain, "a" * 253, "a" * 254),
        (formats.qualified_name, "example.com/Name_1", "example.com/"),
        (formats.label_value, "", "-"),
        (formats.semver, "1.2.3-rc.1+x", "01.2.3"),
        (formats.uuid, "00000000-1111-2222-3333-444444444444", "0000000011112222333344444444444A"),
        (formats.c_identifier, "_a1", "1a"),
    ],
)
def test_a_format_knows_right_from_wrong(form: formats.Format, good: str, bad: str) -> None:
    assert form(good) == []
    assert form(bad) != []


def test_newer_rules_count_in_bytes() -> None:
    assert formats.dns_subdomain("a" * 254)[0] == "must be no more than 253 characters"
    assert formats.in_bytes(formats.dns_subdomain)("a" * 254)[0] == "must be no more than 253 bytes"


def test_a_name_to_be_generated_may_end_with_a_dash() -> None:
    assert formats.dns_subdomain(formats.masked("a-")) == []
    assert formats.dns_subdomain("a-") != []


@given(st.text(max_size=400), st.sampled_from([formats.dns_label, formats.label_key, formats.path_segment]))
def test_what_is_remembered_of_a_text_is_what_the_format_finds(text: str, form: formats.Format) -> None:
    for _ in range(2):
        assert list(formats.problems_of(form, text)) == form(text)
