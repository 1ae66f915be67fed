"""What every process of a cluster does beside its work: start in the background, stop when asked, log, tell its health.

`background` starts and stops processes, `signals` hears that one is to end, `logs` writes their lines, `health` and
`plainhealth` answer probes, `switching` says how soon its threads take turns.
"""
