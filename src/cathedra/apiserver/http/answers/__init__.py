"""Answers: `negotiation` finds the form that the client wants, `render` puts objects into it (`protobuf`, `tables`,
`listcache`), `response` sends them (`compression`), and `streaming` sends watches.
"""
