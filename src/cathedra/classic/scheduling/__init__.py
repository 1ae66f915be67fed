"""The scheduler's side of the negotiation: it proposes nodes, drivers exclude some, it selects one, drivers allocate.

`plugin` is registered in the scheduler as DynamicResources, with the hints which events queue a pod again,
`negotiating` writes proposals, reservations and deallocations, and `negotiation` is the state of one pod
(docs/spec/scheduling.md §18).
"""
