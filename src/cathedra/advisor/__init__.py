"""The advisor: a part that explains why pods wait for devices, exports free capacity, and checks the scheduler.

It reads a cluster and writes nothing but events (docs/advisor.md). `model` keeps the cluster's objects by watches, with
the scheduler's filters over them; in turns either changes are applied, or a thread computes on it. `pods` finds
answers for waiting pods, `findings` those for other objects, and `alarm` the disagreements with the scheduler.
`events` decides which events are written, `sentences` how they read. `devices`, `capacity` and `usage` keep figures.
`advisor` composes all this, and `program` runs it as a process and exports the figures as metrics.
"""
