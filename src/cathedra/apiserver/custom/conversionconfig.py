"""How a definition says that its versions are converted: what is filled in, and what must be right."""

from __future__ import annotations

from cathedra.api.core.apiextensions_v1 import CustomResourceConversion
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.apiserver.custom.conversion import REVIEW_VERSIONS

__all__ = ["check_conversion", "with_port"]


def with_port(conversion: CustomResourceConversion) -> CustomResourceConversion:
    """The conversion, its webhook's service with a port."""
    webhook = conversion.webhook
    config = webhook.client_config if webhook is not None else None
    if webhook is None or config is None or config.service is None or config.service.port is not None:
        return conversion
    config = replace(config, service=replace(config.service, port=443))
    return replace(conversion, webhook=replace(webhook, client_config=config))


def check_conversion(errors: ErrorList, conversion: CustomResourceConversion) -> None:
    """What is wrong with a strategy and its webhook."""
    path = "spec.conversion"
    webhook = conversion.webhook
    if conversion.strategy not in {"None", "Webhook"}:
        errors.string_not_among(f"{path}.strategy", conversion.strategy, ["None", "Webhook"])
    if conversion.strategy != "Webhook":
        for name, given in (
            ("webhookClientConfig", webhook is not None and webhook.client_config is not None),
            ("conversionReviewVersions", webhook is not None and bool(webhook.conversion_review_versions)),
        ):
            if given:
                errors.forbidden(f"{path}.{name}", "should not be set when strategy is not set to Webhook")
        return
    config = webhook.client_config if webhook is not None else None
    if config is None:
        errors.required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    elif (config.url is None) is (config.service is None):
        errors.required(f"{path}.webhookClientConfig", "exactly one of url or service is required")
    elif config.url is not None and not config.url.startswith("https://"):
        scheme = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        errors.invalid(f"{path}.webhookClientConfig.url", config.url, scheme)
    versions = webhook.conversion_review_versions if webhook is not None else ()
    if not versions:
        errors.required(f"{path}.conversionReviewVersions")
    elif not set(versions) & set(REVIEW_VERSIONS):
        errors.invalid(f"{path}.conversionReviewVersions", list(versions), "must include at least one of v1, v1beta1")
