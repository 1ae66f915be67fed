"""What would happen: the real API server, scheduler and controllers on a copy of a cluster, in virtual time.

`plan` says what is changed, `copying` loads a state into a store, `pretending` are nodes that run what they are given
at once, `run` lets everything settle and compares; `model` is the answer, and `text` its form for people.
"""
