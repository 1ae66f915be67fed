"""The secrets that a pod names for its images."""

from __future__ import annotations

from cathedra.api.core.core_v1 import LocalObjectReference, Secret
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.resources import SECRETS
from cathedra.clock import run_virtual
from cathedra.node.images.pullsecrets import PullSecrets
from tests.unit.node.fakes import make_pod
from tests.unit.node.pods.onepod import OnePod


def test_secrets_are_read_and_those_that_are_missing_are_told() -> None:
    async def body() -> None:
        pod = make_pod(image_pull_secrets=(LocalObjectReference("there"), LocalObjectReference("gone")))
        one = OnePod(pod)
        namespace = pod.metadata.namespace
        secret = Secret(metadata=ObjectMeta(name="there", namespace=namespace), data={"a": b"1"})
        await one.client.resource(SECRETS, namespace).create(secret)
        told: list[tuple[str, str, str]] = []
        found = await PullSecrets(one.client, pod).contents(lambda *event: told.append(event))
        assert found == [{"a": b"1"}]
        text = "Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed."
        assert told == [("Warning", "FailedToRetrieveImagePullSecret", text)]

    run_virtual(body())
