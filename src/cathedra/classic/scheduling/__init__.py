"""The scheduler's side of the negotiation: it proposes nodes, drivers exclude some, it selects one, drivers allocate.

`plugin` stands in the scheduler under the name DynamicResources. `negotiation` is what it has told and been told about
one pod, `hints` say which answers wake the pod, `writing` reserves claims and takes reservations back
(docs/spec/scheduling.md §18).
"""
