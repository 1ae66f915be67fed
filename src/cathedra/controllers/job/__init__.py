"""Jobs: pods that run until enough of them have succeeded.

`indexes` knows the short form of completed indexes, `pods` makes the pods, `failurepolicy` judges failed ones,
`tally` counts them, `outcome` decides when a job is over, `controller` does the work, `ttl` deletes finished jobs
(spec: controllers.md, section 7).
"""
