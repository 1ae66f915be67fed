"""Explanations: the reasons why a pod, a claim or a workload waits, or what it holds.

Data flows from left to right, and no module imports one on its right:

- `question`: the pod, claim or workload of the question, with the claims that controllers would create for it.
- `analysis`: the verdict of the scheduler's filters and of the allocator. Funnels count, for each group of equal
  nodes, the devices that are left after each test.
- `causes`: the obstacles, the decisive ones first.
- `remedies`: the smallest changes with which it fits. `candidates`, `podcandidates` and `relaxing` propose changes;
  each proposal is tried with the filters and the allocator.
- `report`: the result as data and as text. `claims` describes the claims that are held.
- `explainer`: all of these for one pod, claim, template or workload. `explain` is the entry point: it finds
  subjects by their names, and groups explanations by cause.
"""
