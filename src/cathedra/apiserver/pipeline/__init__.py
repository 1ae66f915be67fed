"""The one way of a request through the API server, over HTTP, by a session or in process.

`pipeline` has the steps in their order, `record` what they find out about a request. `flowcontrol` finds its priority
level and lets it wait for a seat, `deadlines` end what takes too long, `consistency` makes several servers on one store
look like one. `operations` carry out calls on resources. `metrics` count requests, `audit` logs them.
"""
