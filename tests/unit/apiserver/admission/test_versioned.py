"""A request as policies and webhooks see it."""

from __future__ import annotations

from cathedra.api.core.autoscaling_v1 import Scale
from cathedra.api.core.core_v1 import Binding
from cathedra.api.core.meta_v1 import DeleteOptions
from cathedra.apiserver.admission.versioned import VersionedAttributes, own_kind
from tests.unit.apiserver.admission.writes import write
from tests.unit.kinds.objects import claim, definition_of, exactly

CLAIMS = definition_of("resourceclaims")


def test_an_object_is_shown_in_the_version_that_is_asked_for_and_made_once() -> None:
    views = VersionedAttributes(write("resourceclaims", "UPDATE", claim(exactly()), claim(exactly("old"))))
    newest = views.object(CLAIMS.version("v1"))
    assert newest is not None
    assert (newest["apiVersion"], newest["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")
    assert "exactly" in newest["spec"]["devices"]["requests"][0]
    older = views.old_object(CLAIMS.version("v1beta1"))
    assert older is not None
    assert older["spec"]["devices"]["requests"][0] == {"name": "old", "deviceClassName": "gpu.example.com"}
    assert views.object(CLAIMS.version("v1")) is newest


def test_there_is_no_old_object_in_a_creation_and_no_new_one_in_a_deletion() -> None:
    version = CLAIMS.version("v1")
    assert VersionedAttributes(write("resourceclaims", new=claim())).old_object(version) is None
    assert VersionedAttributes(write("resourceclaims", "DELETE", old=claim())).object(version) is None


def test_the_request_says_what_was_asked_and_in_which_version_it_is_shown() -> None:
    request = write("resourceclaims", new=claim(), version="v1beta1", namespace="n", name="c", subresource="status")
    said = VersionedAttributes(request).attributes(CLAIMS.version("v1"))
    kind = {"group": "resource.k8s.io", "kind": "ResourceClaim"}
    assert (said["kind"], said["requestKind"]) == ({**kind, "version": "v1"}, {**kind, "version": "v1beta1"})
    assert said["resource"] == {"group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"}
    assert (said["namespace"], said["name"], said["operation"]) == ("n", "c", "CREATE")
    assert said["subResource"] == said["requestSubResource"] == "status"
    assert said["userInfo"]["username"] == "ada"


def test_outside_of_namespaces_none_is_named() -> None:
    said = VersionedAttributes(write("nodes")).attributes(definition_of("nodes").versions[0])
    assert {"namespace", "subResource", "requestSubResource"}.isdisjoint(said)


def test_options_are_those_of_the_operation() -> None:
    def options(operation: str, **more: object) -> object:
        request = write("configmaps", operation, **more)
        return VersionedAttributes(request).attributes(request.version)["options"]

    head = {"apiVersion": "meta.k8s.io/v1"}
    assert options("CREATE") == {"kind": "CreateOptions", **head}
    assert options("UPDATE", dry_run=True, field_manager="me") == {
        "kind": "UpdateOptions",
        **head,
        "dryRun": ["All"],
        "fieldManager": "me",
    }
    deletion = write("configmaps", "DELETE").but(options=DeleteOptions(grace_period_seconds=5))
    said = VersionedAttributes(deletion).attributes(deletion.version)
    assert said["options"] == {"kind": "DeleteOptions", **head, "gracePeriodSeconds": 5}


def test_bodies_of_sub_resources_have_kinds_of_their_own() -> None:
    request = write("pods", new=Binding(), subresource="binding")
    said = VersionedAttributes(request).attributes(request.version)
    assert said["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert said["resource"]["resource"] == "pods"
    scale = own_kind(Scale)
    assert scale is not None
    assert scale.api_version == "autoscaling/v1"
    assert own_kind(DeleteOptions) is None
