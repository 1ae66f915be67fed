"""What keeps requests in bounds, and what is recorded of them.

`flow` finds the priority level of each, `levels` admit a number of them at a time and serve flows in turn, `deadlines`
ends those that take too long, `record` says what one request was and what became of it, `metrics` counts records,
`metricsmerging` adds the counts of several processes, `audit` logs records.
"""
