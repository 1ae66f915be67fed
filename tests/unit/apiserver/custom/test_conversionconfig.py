"""How a definition says that its versions are converted."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apiextensions_v1 import CustomResourceConversion
from cathedra.api.field import ErrorList
from cathedra.api.struct import from_dict, to_dict
from cathedra.apiserver.custom.conversionconfig import check_conversion, with_port

SERVICE = {"namespace": "ns", "name": "hook"}


def conversion(config: dict[str, Any] | None, versions: tuple[str, ...] = ("v1",)) -> CustomResourceConversion:
    webhook: dict[str, Any] = {"conversionReviewVersions": list(versions)}
    if config is not None:
        webhook["clientConfig"] = config
    return from_dict(CustomResourceConversion, {"strategy": "Webhook", "webhook": webhook})


def complaints(checked: CustomResourceConversion) -> list[str]:
    errors = ErrorList()
    check_conversion(errors, checked)
    return [f"{error.field.removeprefix('spec.conversion.')}: {error.type.value[1]}" for error in errors]


def test_a_service_without_a_port_is_reached_at_443() -> None:
    filled = to_dict(with_port(conversion({"service": SERVICE})))
    assert filled["webhook"]["clientConfig"]["service"] == {**SERVICE, "port": 443}


@pytest.mark.parametrize(
    "given",
    [
        conversion({"service": {**SERVICE, "port": 8443}}),
        conversion({"url": "https://example.com"}),
        conversion(None),
        CustomResourceConversion(strategy="None"),
    ],
)
def test_nothing_else_is_filled_in(given: CustomResourceConversion) -> None:
    assert with_port(given) is given


@pytest.mark.parametrize(
    "given",
    [
        CustomResourceConversion(strategy="None"),
        conversion({"service": SERVICE}),
        conversion({"url": "https://example.com/convert"}, ("v2", "v1beta1")),
    ],
)
def test_what_is_right_is_not_complained_about(given: CustomResourceConversion) -> None:
    assert complaints(given) == []


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (CustomResourceConversion(strategy="Magic"), ["strategy: Unsupported value"]),
        (
            CustomResourceConversion(strategy="Webhook"),
            ["webhookClientConfig: Required value", "conversionReviewVersions: Required value"],
        ),
        (conversion(None), ["webhookClientConfig: Required value"]),
        (conversion({}), ["webhookClientConfig: Required value"]),
        (conversion({"url": "https://a", "service": SERVICE}), ["webhookClientConfig: Required value"]),
        (conversion({"url": "http://example.com"}), ["webhookClientConfig.url: Invalid value"]),
        (conversion({"service": SERVICE}, ()), ["conversionReviewVersions: Required value"]),
        (conversion({"service": SERVICE}, ("v2",)), ["conversionReviewVersions: Invalid value"]),
    ],
)
def test_a_webhook_needs_one_address_and_a_version_that_is_known(
    given: CustomResourceConversion, wrong: list[str]
) -> None:
    assert complaints(given) == wrong


def test_a_webhook_without_its_strategy_is_a_mistake() -> None:
    given = conversion({"service": SERVICE})
    given = from_dict(CustomResourceConversion, {**to_dict(given), "strategy": "None"})
    assert complaints(given) == ["webhookClientConfig: Forbidden", "conversionReviewVersions: Forbidden"]
