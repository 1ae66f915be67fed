"""Facilities of every process of a cluster: background start, signals, logs, health.

`background` starts and stops processes, `signals` handles termination and the switch interval of threads, `logs`
formats log lines, `health` and `plainhealth` serve probes and metrics.
"""
