"""The scheduler's side of the negotiation: it proposes nodes, drivers exclude some, it selects one, drivers allocate.

`plugin` is registered in the scheduler as DynamicResources, with the hints which events queue a pod again,
and `negotiating` has the state of one pod and writes proposals, reservations and deallocations
(docs/spec/scheduling.md §18).
"""
