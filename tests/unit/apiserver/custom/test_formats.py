"""Formats of texts in schemas, each with a text that has it and one that has not."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.custom.formats import FORMATS, compiled_pattern, pattern_problem
from cathedra.releases import FeatureGates
from tests.costs import costs_less_than
from tests.unit.apiserver.asgi import open_asgi
from tests.unit.apiserver.custom.test_custom_resources import CRDS, definition

CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bsonobjectid": (("507f1f77bcf86cd799439011",), ("507f1f77bcf86cd79943901", "g" * 24)),
    "byte": (("YWI=", "YWJj"), ("", "YWI", "a b=")),
    "cidr": (("10.0.0.1/8", "2001:db8::/32"), ("10.0.0.1", "10.0.0.1/33", "10.0.0.1/255.0.0.0", "::/129")),
    "creditcard": (("4111-1111-1111-1111", "378282246310005"), ("4111111111111112", "1234")),
    "date": (("2024-02-29", "0000-02-29"), ("2023-02-29", "2024-2-9", "20240229")),
    "date-time": (
        ("2024-02-29T23:59:59Z", "2024-02-29t00:00:00.5+05:30"),
        ("2024-02-29 00:00:00Z", "2024-02-29T24:00:00Z", "2024-02-29T00:00:00", "2024-02-29T00:00Z"),
    ),
    "datetime": (("2024-02-29T23:59:59Z",), ("2024-02-29",)),
    "duration": (("1h30m", "1.5s", "3 weeks", "2 days", "0", "1min"), ("", "h", "1 parsec", "-")),
    "email": (
        ("a@b.c", "A Name <a.b@c>", '"a b"@c', "a@[127.0.0.1]"),
        ("a", "a@", "a b@c", "a@b@c", "<a@b", "a..b@c", "a.@b.c"),
    ),
    "hexcolor": (("#fff", "00FF00"), ("#ff", "#ggg")),
    "hostname": (("a", "node-1.example.com", "bücher.de"), ("", "-a", "a.b1", "a..com", "a_b.com", "a" * 64 + ".com")),
    "ipv4": (("10.0.0.1",), ("10.0.0", "10.0.0.256", "::1")),
    "ipv6": (("::1", "2001:db8::8a2e:370:7334"), ("10.0.0.1", ":::", "fe80::1%eth0")),
    "isbn": (("0-306-40615-2", "978-0-306-40615-7"), ("0306406153",)),
    "isbn10": (("0306406152", "080442957X"), ("9780306406157",)),
    "isbn13": (("978-0-306-40615-7",), ("9780306406158", "0306406152")),
    "k8s-long-name": (("a.b-c.d",), ("A", "a..b")),
    "k8s-short-name": (("a-b",), ("a.b", "-a")),
    "mac": (
        ("01:02:03:04:05:06", "01-02-03-04-05-06-07-08", "0102.0304.0506"),
        ("01:02:03:04:05", "01:02-03:04:05:06"),
    ),
    "password": (("", "anything"), ()),
    "rgbcolor": (("rgb(0, 255,7)",), ("rgb(256,0,0)", "rgb(0,0)")),
    "ssn": (("123-45-6789", "123 45 6789", "123456789"), ("123-45-678",)),
    "uri": (("https://example.com/a?b", "/a/b"), ("a/b", "", "http://[::1")),
    "uuid": (("F47AC10B-58cc-4372-a567-0e02b2c3d479", "f47ac10b58cc4372a5670e02b2c3d479"), ("f47ac10b",)),
    "uuid3": (("f47ac10b-58cc-3372-a567-0e02b2c3d479",), ("f47ac10b-58cc-4372-a567-0e02b2c3d479",)),
    "uuid4": (("f47ac10b-58cc-4372-a567-0e02b2c3d479",), ("f47ac10b-58cc-4372-c567-0e02b2c3d479",)),
    "uuid5": (("f47ac10b-58cc-5372-a567-0e02b2c3d479",), ("f47ac10b-58cc-4372-a567-0e02b2c3d479",)),
}


def test_every_format_has_a_case() -> None:
    assert CASES.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", sorted(CASES))
def test_texts_have_a_format_or_not(name: str) -> None:
    fitting, others = CASES[name]
    assert [text for text in fitting if not FORMATS[name](text)] == []
    assert [text for text in others if FORMATS[name](text)] == []


@pytest.mark.parametrize("name", sorted(CASES))
def test_long_texts_cost_time_by_their_length(name: str) -> None:
    with costs_less_than(1):
        for letter in '0a1A-.:@"<( \\':
            FORMATS[name](letter * 20_000 + "\x00")


def with_formats(*names: str) -> dict[str, Any]:
    """A definition with a field of each format."""
    fields = {f"f{position}": {"type": "string", "format": name} for position, name in enumerate(names)}
    made = definition()
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] |= fields
    return made


async def test_unknown_formats_and_those_of_numbers_are_named() -> None:
    async with open_asgi() as asgi:
        made = await asgi("POST", CRDS, with_formats("date-time", "uuid", "quantity", "int64", "strange", "int64"))
        assert made.status == 201, made.body
        assert made.warnings == ['299 - "unrecognized format \\"int64\\""', '299 - "unrecognized format \\"strange\\""']


async def test_an_update_warns_of_what_is_new() -> None:
    async with open_asgi() as asgi:
        made = await asgi("POST", CRDS, with_formats("odd"))
        changed = made.json | {"spec": with_formats("odd", "strange")["spec"]}
        del changed["metadata"]["resourceVersion"]  # meanwhile the definition has been established
        answer = await asgi("PUT", f"{CRDS}/gpuconfigs.d.x", changed)
        assert answer.warnings == ['299 - "unrecognized format \\"strange\\""']


async def test_older_releases_say_nothing() -> None:
    config = ServerConfig(release="1.33", gates=FeatureGates.for_release("1.33"))
    async with open_asgi(config) as asgi:
        assert (await asgi("POST", CRDS, with_formats("strange"))).warnings == []


def test_a_pattern_is_searched_for() -> None:
    assert compiled_pattern("^x").matches("xy")
    assert not compiled_pattern("^x").matches("ax")
    assert pattern_problem("^x") == ""


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("+", "error parsing regexp: missing argument to repetition operator: `+`"),
        (r"(a)\1", r"error parsing regexp: invalid escape sequence: `\1`"),
        ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_what_re2_does_not_know_is_refused_in_the_words_of_go(pattern: str, problem: str) -> None:
    assert compiled_pattern(pattern) is None
    assert pattern_problem(pattern) == problem
