"""The sub-resources that are more than another view of the object: binding, eviction, scale, token, log, exec.

And the writes among them that no store compares with an older state (`comparison`).
"""
