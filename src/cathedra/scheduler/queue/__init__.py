"""Pods that wait for a node: `queue` holds them, `entry` says what is remembered of each, and `inflight` keeps the
events that arrive while a pod is being tried, so that none is lost."""
