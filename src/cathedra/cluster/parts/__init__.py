"""The parts as a cluster composes them: `nodes` with their drivers, the `generations` of a release, `classicprograms`.

`gctuning` sets up the garbage collector.
"""
