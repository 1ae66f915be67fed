"""Keys of pod specs that are equivalent for the rules of pods.

Admission gives each new pod a volume with the credentials of its service account, under a generated name. Specs of one
workload's pods differ in nothing else, and no rule depends on more of that name than that it is one. They get one key,
so that the rules run once per workload: for 2000 pods of a deployment they would take 0.06 of 0.76 ms per pod.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import PodSpec, ServiceAccount
from cathedra.remembering import TEMPLATES, numbered

spec_key: Final = numbered("specs of pods", size=TEMPLATES)
"""Key of a spec, in memos of results that do not depend on the name of the volume with credentials."""
# In a table of their own: each new pod declares a spec above, so that the specs of a few workloads would be forgotten.
_key_without_credentials: Final = numbered("specs of pods without credentials", size=TEMPLATES)
_account_key: Final = numbered("accounts of pods", size=TEMPLATES)


def declare_credentials(spec: PodSpec, before: PodSpec, account: ServiceAccount) -> None:
    """Declare that ``spec`` is ``before`` with credentials of ``account`` under a generated name.

    ``before`` must not contain such a name: a rule compares the names of a spec's volumes and mounts, and a generated
    name may equal one that the user wrote.
    """
    spec_key.declare(spec, (_key_without_credentials(before), _account_key(account)))
