"""Simulation of whole clusters with faults, in virtual time (docs/reliability.md).

Plans are drawn from seeds, the real parts carry them out, and invariants are checked after each write. Of a plan that
fails, the shortest failing part is found.

`plan` draws, `world` and the modules below it act, `observation` and `invariants` check, `runs` puts a run together,
`shrinking` shortens a plan that fails.
"""
