"""The kinds of the group batch, in one list."""

from __future__ import annotations

from cathedra.kinds.batch.cronjobs import cron_job_definition
from cathedra.kinds.batch.jobs.strategy import job_definition
from cathedra.kinds.definition import AnyDefinition


def batch_definitions() -> tuple[AnyDefinition, ...]:
    """Jobs and cron jobs."""
    return (job_definition(), cron_job_definition())
