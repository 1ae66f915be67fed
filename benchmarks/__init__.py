"""Measurements: one command, one table, names as in Kubernetes' scheduler_perf."""
