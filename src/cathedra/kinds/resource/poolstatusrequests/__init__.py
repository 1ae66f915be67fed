"""ResourcePoolStatusRequest: a question about pools and its answer.

`validation` checks both, `strategy` says how they are written, `columns` shows them.
"""
