"""Rules of a job's ``spec.scheduling``, which states how its pods are scheduled together (KEP-5547).

The rules of single fields are tags of the building blocks. Two rules need more than one field: a gang that is larger
than the parallelism could never be scheduled, and the policy may change its size but not its kind.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core import batch_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.declarative.formats import label_key, long_name, minimum, short_name
from cathedra.kinds.declarative.tags import FieldTags, TypeTags
from cathedra.kinds.declarative.walking import declared_errors
from cathedra.releases import FeatureGates

MAX_CLAIMS: Final = 4
_CLAIM: Final = TypeTags(
    {
        "name": FieldTags(required=True, checks=(short_name,)),
        "resourceClaimName": FieldTags(checks=(long_name,)),
        "resourceClaimTemplateName": FieldTags(checks=(long_name,)),
    },
    union=("resourceClaimName", "resourceClaimTemplateName"),
)
_POLICY: Final = TypeTags(
    {
        "basic": FieldTags(immutable=True),
        "gang": FieldTags(settled=True, of=TypeTags({"minCount": FieldTags(checks=(minimum(1),))})),
    },
    union=("basic", "gang"),
)
_TOPOLOGY: Final = TypeTags({"key": FieldTags(required=True, checks=(label_key,))})
_SCHEDULING: Final = TypeTags(
    {
        "schedulingPolicy": FieldTags(settled=True, of=_POLICY),
        "schedulingConstraints": FieldTags(
            immutable=True, of=TypeTags({"topology": FieldTags(max_items=1, of=_TOPOLOGY)})
        ),
        "disruptionMode": FieldTags(immutable=True, of=TypeTags(union=("single", "all"))),
        "resourceClaims": FieldTags(immutable=True, max_items=MAX_CLAIMS, unique=("name",), of=_CLAIM),
    }
)
_JOB: Final = TypeTags({"spec": FieldTags(of=TypeTags({"scheduling": FieldTags(settled=True, of=_SCHEDULING)}))})


def validate_job_scheduling(job: batch_v1.Job, old: batch_v1.Job | None, gates: FeatureGates) -> ErrorList:
    """Return the errors of ``spec.scheduling``; none while the gate is off, which keeps a stored field as it is."""
    # Without the field no gate is read: earlier releases have neither.
    stated = job.spec.scheduling is not None or (old is not None and old.spec.scheduling is not None)
    if not stated or not gates["WorkloadWithJob"]:
        return ErrorList()
    errors = declared_errors(_JOB, job, old, beta=True)
    policy = job.spec.scheduling.scheduling_policy if job.spec.scheduling is not None else None
    count = policy.gang.min_count if policy is not None and policy.gang is not None else None
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if count is not None and count > parallelism:
        path = FieldPath("spec").child("scheduling", "schedulingPolicy", "gang", "minCount")
        errors.invalid(path, count, "must be less than or equal to spec.parallelism")
    return errors
