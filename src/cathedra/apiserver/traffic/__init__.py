"""What keeps requests in bounds, and what is told about them.

`flow` lets a number of them in at a time and serves users in turn, `deadlines` ends those that take too long,
`compression` makes large answers small, `exchange` says what one request was, `metrics` counts them, `audit` writes
them down.
"""
