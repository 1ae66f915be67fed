"""The scheduler's side of the negotiation: it proposes nodes, drivers exclude some, it selects one, drivers allocate.

`plugin` is registered in the scheduler as DynamicResources, `negotiating` writes proposals, reservations and
deallocations, `negotiation` is the state of one pod, and `hints` decide which events queue the pod again
(docs/spec/scheduling.md §18).
"""
