"""What keeps requests in bounds, and what is recorded of them.

`flow` admits a number of them at a time and serves users in turn, `deadlines` ends those that take too long, `record`
says what one request was and what became of it, `metrics` counts records, `audit` logs them.
"""
