"""Results for a spec hold for all that are equivalent to it, and for no other."""

from __future__ import annotations

from collections.abc import Hashable

from cathedra.api.core.core_v1 import ServiceAccount
from cathedra.api.struct import replace
from cathedra.kinds.core.pods.equivalence import declare_credentials, spec_key
from cathedra.kinds.core.pods.validation import validate_pod
from cathedra.kinds.core.pods.warnings import pod_warnings
from tests.requirements import with_memos
from tests.unit.kinds.objects import defaulted, pod


def test_errors_of_a_spec_are_computed_for_each_that_is_equivalent() -> None:
    bad, worse = (defaulted("pods", pod({"image": image})) for image in (" bad", " worse"))
    declare_credentials(worse.spec, bad.spec, ServiceAccount())
    found = [str(error) for one in (bad, worse, bad) for error in validate_pod(one)]
    assert [" bad" in text for text in found] == [True, False, True]


@with_memos
def test_a_spec_that_is_equivalent_to_one_without_errors_has_none() -> None:
    sound = defaulted("pods", pod({}))
    second, other = (replace(sound, spec=replace(sound.spec, restart_policy="Sometimes")) for _ in range(2))
    spec_key.declare(second.spec, spec_key(sound.spec))
    assert not validate_pod(sound)
    assert not validate_pod(second)
    assert validate_pod(other)


def test_annotations_are_warned_of_beside_a_spec_without_warnings() -> None:
    quiet = defaulted("pods", pod({}))
    annotations = {"security.alpha.kubernetes.io/sysctls": "a=b"}
    noted = replace(quiet, metadata=replace(quiet.metadata, annotations=annotations))
    assert not list(pod_warnings(quiet))
    assert len(list(pod_warnings(noted))) == 1
    assert not list(pod_warnings(quiet))


@with_memos
def test_specs_made_from_one_for_one_account_are_equivalent() -> None:
    shared = defaulted("pods", pod({})).spec
    before, first, second, third = (replace(shared, hostname=name) for name in "abcd")
    account = ServiceAccount()
    declare_credentials(first, before, account)
    declare_credentials(second, before, account)
    declare_credentials(third, before, ServiceAccount())
    assert spec_key(first) == spec_key(second)
    assert len({spec_key(before), spec_key(first), spec_key(third)}) == 3


@with_memos
def test_specs_of_several_workloads_keep_their_keys_however_many_pods_are_created() -> None:
    shared = defaulted("pods", pod({})).spec
    workloads = [replace(shared, hostname=f"w{number}") for number in range(25)]
    account = ServiceAccount()

    def keys_of_new_pods() -> list[Hashable]:
        specs = [replace(spec) for spec in workloads]
        for spec, before in zip(specs, workloads, strict=True):
            declare_credentials(spec, before, account)
        return [spec_key(spec) for spec in specs]

    first = keys_of_new_pods()
    assert all(keys_of_new_pods() == first for _ in range(10))
