"""The one way of a request through the API server, over HTTP, by a session or in process.

`pipeline` has the steps in their order, and the deadlines of requests; `record` has the results of the steps for one
request. `flowcontrol` finds its priority level and queues it until a seat is free, `consistency` makes several servers
on one store look like one. `operations` carry out calls on resources. `metrics` count requests, `audit` logs them.
"""
