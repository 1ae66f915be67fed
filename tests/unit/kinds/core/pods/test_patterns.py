"""What was found out about a spec holds for all that are like it, and for no other."""

from __future__ import annotations

from cathedra.api.struct import replace
from cathedra.kinds.core.pods.patterns import SPECS
from cathedra.kinds.core.pods.validation import validate_pod
from cathedra.kinds.core.pods.warnings import pod_warnings
from tests.requirements import with_memos
from tests.unit.kinds.objects import defaulted, pod


def test_what_is_wrong_with_a_spec_is_said_of_each_that_is_like_it() -> None:
    bad, worse = (defaulted("pods", pod({"image": image})) for image in (" bad", " worse"))
    SPECS.follow(bad.spec, worse.spec)
    found = [str(error) for one in (bad, worse, bad) for error in validate_pod(one)]
    assert [" bad" in text for text in found] == [True, False, True]


@with_memos
def test_of_a_spec_that_is_like_a_sound_one_nothing_is_to_be_said() -> None:
    sound = defaulted("pods", pod({}))
    second, other = (replace(sound, spec=replace(sound.spec, restart_policy="Sometimes")) for _ in range(2))
    SPECS.note(second.spec, sound.spec)
    assert not validate_pod(sound)
    assert not validate_pod(second)
    assert validate_pod(other)


def test_warnings_about_annotations_are_given_for_specs_that_are_alike_as_well() -> None:
    quiet = defaulted("pods", pod({}))
    annotations = {"security.alpha.kubernetes.io/sysctls": "a=b"}
    noted = replace(quiet, metadata=replace(quiet.metadata, annotations=annotations))
    assert not list(pod_warnings(quiet))
    assert len(list(pod_warnings(noted))) == 1
    assert not list(pod_warnings(quiet))
