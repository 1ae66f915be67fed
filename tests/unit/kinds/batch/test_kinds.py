"""The kinds of the group batch."""

from __future__ import annotations

from cathedra.kinds.served import batch_definitions


def test_the_kinds_of_batch_are_jobs_and_what_starts_them() -> None:
    found = [(d.group, d.plural, d.kind, d.short_names, d.namespaced) for d in batch_definitions()]
    assert found == [("batch", "jobs", "Job", (), True), ("batch", "cronjobs", "CronJob", ("cj",), True)]
    assert all(d.categories == ("all",) and not d.scalable for d in batch_definitions())
