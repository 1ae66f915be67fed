"""Conversion of custom resources between their versions by a webhook (docs/spec/apimachinery.md §17).

Objects are kept in the version that they were written in, with its name. What verbs, strategies and admission see is
the object in the version of the request: it is converted when it is read, and back before it is written. Each stored
state is converted to a version once.
"""

from __future__ import annotations

import json
import random as random_module
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.apiextensions_v1 import CustomResourceConversion
from cathedra.api.core.apiextensions_v1 import WebhookConversion as ConversionConfig
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList
from cathedra.api.formats import dns_1035_label
from cathedra.api.jsonvalue import JSONValue
from cathedra.api.nesting import load_json
from cathedra.api.status import StatusError, failure
from cathedra.api.struct import replace, to_dict
from cathedra.apiserver.custom.objects import CustomObject, content, normalized, stored_version, with_content
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.kinds.machinery.webhooks import check_webhook_service, check_webhook_url
from cathedra.kinds.metadata import METADATA, validate_annotations, validate_labels

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_GROUP: Final = "apiextensions.k8s.io"
_TIMEOUT: Final = 30.0


class Caller(msgspec.Struct, frozen=True):
    """The functions that conversion needs to call webhooks."""

    post: Callable[[Any, dict[str, Any], float], Awaitable[bytes]]
    """Sends a review to the address of a configuration, within some seconds; `StatusError` if that fails."""
    random: random_module.Random


class WebhookConversion:
    """The conversion of one kind."""

    def __init__(
        self,
        config: ConversionConfig,
        seen: Mapping[str, type[CustomObject]],
        stored: Mapping[str, type[CustomObject]],
        storage: str,
        caller: Caller,
    ) -> None:
        """``seen`` and ``stored`` are the struct types by apiVersion, ``storage`` is the apiVersion that is written."""
        self._config = config
        self._seen = dict(seen)
        self._stored = dict(stored)
        self._storage = storage
        self._caller = caller

    async def seen(self, entries: Sequence[StoredObject], api_version: str) -> list[StoredObject]:
        """Return stored states in a version, in the same order.

        Raises:
            StatusError: 500, the webhook could not be called, or its answer is invalid.
        """
        kind = self._seen[api_version]
        # All objects of a list in one call: a call for each would take minutes for some thousand objects.
        missing = [entry for entry in entries if entry.seen(kind) is None]
        if missing:
            given = [(stored_version(type(entry.object)), entry.object) for entry in missing]
            for entry, (metadata, values) in zip(missing, await self._converted(given, api_version), strict=True):
                obj = normalized(with_content(kind, metadata, values))
                entry.keep_seen(kind, StoredObject(entry.key, obj, entry.revision, encoded=entry.encoded))
        return [found for entry in entries if (found := entry.seen(kind)) is not None]

    async def stored(self, obj: CustomObject, api_version: str) -> CustomObject:
        """Return an object of a version in the version that is stored.

        Raises:
            StatusError: 500, as with `seen`.
        """
        ((metadata, values),) = await self._converted([(api_version, obj)], self._storage)
        return with_content(self._stored[self._storage], metadata, values)

    async def between(self, obj: CustomObject, api_version: str, wanted: str) -> CustomObject:
        """Return an object of one version in another, as the webhook converts it.

        Raises:
            KeyError: the kind has no such version.
            StatusError: 500, as with `seen`.
        """
        kind = self._seen[wanted]
        ((metadata, values),) = await self._converted([(api_version, obj)], wanted)
        return with_content(kind, metadata, values)

    async def _converted(
        self, objects: Sequence[tuple[str, CustomObject]], wanted: str
    ) -> list[tuple[ObjectMeta, dict[str, Any]]]:
        """Return metadata and content of objects in a version; those that have it already are not sent."""
        sent = [(version, one) for version, one in objects if version != wanted]
        answers = iter(await self._call(sent, wanted) if sent else ())
        made = []
        for version, one in objects:
            if version == wanted:
                made.append((one.metadata, content(one)))
                continue
            values = next(answers)
            given = values.pop("metadata")
            # The other metadata stay those of the stored object, whatever the webhook answers.
            labels, annotations = given.get("labels") or {}, given.get("annotations") or {}
            rest = {name: value for name, value in values.items() if name not in {"kind", "apiVersion"}}
            made.append((replace(one.metadata, labels=labels, annotations=annotations), rest))
        return made

    async def _call(self, objects: Sequence[tuple[str, CustomObject]], wanted: str) -> list[dict[str, Any]]:
        kind = type(objects[0][1]).__name__

        def failed(what: str) -> StatusError:
            return failure(500, "", f"conversion webhook for {objects[0][0]}, Kind={kind} {what}")

        version = next((one for one in self._config.conversion_review_versions if one in REVIEW_VERSIONS), "v1")
        uid = str(uuid.UUID(int=self._caller.random.getrandbits(128), version=4))
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{version}",
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": [_shown(*one) for one in objects]},
        }
        try:
            body = await self._caller.post(self._config.client_config, review, _TIMEOUT)
            found = _converted_objects(body, version, uid)
        except StatusError as error:
            raise failed(f"failed: {error.status.message}") from None
        except ValueError as error:
            raise failed(f"failed: {error}") from None
        if len(found) != len(objects):
            raise failed(f"returned {len(found)} objects, expected {len(objects)}")
        for position, ((_, one), values) in enumerate(zip(objects, found, strict=True)):
            if problem := _problem(one, values, wanted):
                raise failed(f"returned invalid converted object at index {position}: {problem}")
            if problem := _metadata_problem(values["metadata"]):
                raise failed(f"returned invalid metadata: {problem}")
        return found


def _shown(api_version: str, obj: CustomObject) -> dict[str, Any]:
    values: dict[str, Any] = to_dict(obj)
    return {"kind": type(obj).__name__} | values | {"apiVersion": api_version}


def _converted_objects(body: bytes, version: str, uid: str) -> list[Any]:
    """Return the objects in an answer.

    Raises:
        ValueError: there are none, with the reason as text.
    """
    try:
        answer = load_json(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"the answer is no JSON: {error}") from None
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object")
    wanted = f"{_GROUP}/{version}, Kind=ConversionReview"
    received = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
    if received != wanted:
        raise ValueError(f"expected webhook response of {wanted}, got {received}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise ValueError("no response provided")
    answered = response.get("uid") or ""
    # An answer to another review must not become the content of this object.
    if answered != uid:
        raise ValueError(f"expected response.uid={json.dumps(uid)}, got {json.dumps(answered)}")
    result = response.get("result")
    status = result.get("status", "") if isinstance(result, dict) else ""
    if status != "Success":
        message = result.get("message", "") if isinstance(result, dict) else ""
        raise ValueError(message or f"response.result.status was '{status}', not 'Success'")
    found = response.get("convertedObjects")
    return found if isinstance(found, list) else []


def _problem(original: CustomObject, values: JSONValue, api_version: str) -> str:
    """Return why a converted object is invalid, as another name or version; "" if it is valid."""
    if not isinstance(values, dict):
        return "it is no object"
    if values.get("apiVersion") != api_version:
        return f"invalid groupVersion (expected {api_version}, received {values.get('apiVersion', '')})"
    kind = type(original).__name__
    if values.get("kind") != kind:
        return f"invalid kind (expected {kind}, received {values.get('kind', '')})"
    given, kept = values.get("metadata"), original.metadata
    if not isinstance(given, dict):
        return "invalid metadata of type NoneType in converted object"
    for name, word, was in (
        ("name", "name", kept.name),
        ("namespace", "namespace", kept.namespace),
        ("uid", "UID", kept.uid),
    ):
        now = given.get(name) or ""
        if now != was:
            return f"must have the same {word}: {was} != {now}"
    return ""


def _metadata_problem(given: dict[str, Any]) -> str:
    """Return the error of labels or annotations, the only metadata that a webhook may change; "" if they are valid."""
    for name in ("labels", "annotations"):
        found = given.get(name) or {}
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in (*found, *found.values())):
            return f"metadata.{name} is no map of texts"
    errors = ErrorList()
    validate_labels(errors, METADATA.child("labels"), given.get("labels") or {})
    validate_annotations(errors, METADATA.child("annotations"), given.get("annotations") or {})
    return str(errors[0]) if errors else ""


# --- configuration --------------------------------------------------------------------------------------------------


def with_port(conversion: CustomResourceConversion) -> CustomResourceConversion:
    """Return the conversion with the default port of its webhook's service."""
    webhook = conversion.webhook
    config = webhook.client_config if webhook is not None else None
    if webhook is None or config is None or config.service is None or config.service.port is not None:
        return conversion
    config = replace(config, service=replace(config.service, port=443))
    return replace(conversion, webhook=replace(webhook, client_config=config))


def check_conversion(errors: ErrorList, conversion: CustomResourceConversion) -> None:
    """Check a conversion strategy and its webhook."""
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
    elif config.url is not None:
        check_webhook_url(errors, f"{path}.webhookClientConfig.url", config.url)
    elif config.service is not None:
        check_webhook_service(errors, f"{path}.webhookClientConfig.service", config.service)
    versions = webhook.conversion_review_versions if webhook is not None else ()
    if not versions:
        errors.required(f"{path}.conversionReviewVersions")
        return
    for position, version in enumerate(versions):
        where = f"{path}.conversionReviewVersions[{position}]"
        if version in versions[:position]:
            errors.invalid(where, version, "duplicate version")
            continue
        for problem in dns_1035_label(version):
            errors.invalid(where, version, problem)
    if not set(versions) & set(REVIEW_VERSIONS):
        errors.invalid(f"{path}.conversionReviewVersions", list(versions), "must include at least one of v1, v1beta1")
