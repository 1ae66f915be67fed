"""Why a pod waits, or what it has: `explain` over a state, and its answer as data.

Data flows through the package in this order: `subjects` finds what is asked about and makes what is missing of it as
the controllers would; `analysis` puts it to the scheduler's filters and to the allocator, and counts what is left of
the devices on every group of like nodes (`funnels`); `causes` names what stands in the way; `candidates` and
`podcandidates` propose changes, and `changes` keeps those with which the allocator says yes; `claims` tells what is
held; `model` is the answer, and `text` its form for people.
"""
