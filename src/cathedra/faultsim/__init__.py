"""Simulation of whole clusters with faults, in virtual time (docs/reliability.md).

Plans are drawn from seeds, the real parts carry them out, and invariants are checked after each write. Of a plan that
fails, the shortest failing part is found.

`plan` draws, and `world` and the modules below it act: `network`, `machines`, `users`, and `stores` or `sqlitestore` on
`sqlitefiles`. `observation`, `invariants` and `advisorinvariants` check. `runs` puts a run together, and `campaigns`
runs many seeds and shortens a plan that fails.
"""
