"""Limits of requests, and their records.

`flow` finds the priority level of a request, `levels` admit a number of them at a time and serve flows in turn,
`deadlines` ends requests that take too long, `record` is one request and its outcome, `metrics` counts records, `audit`
logs them.
"""
