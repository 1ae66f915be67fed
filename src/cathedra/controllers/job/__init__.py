"""Jobs: pods that run until enough of them have succeeded; and cron jobs, which make jobs by the clock.

`indexes` knows the short form of completed indexes, `pods` makes the pods, `failurepolicy` judges failed ones,
`backoff` knows the pause after them, `tally` counts them, `outcome` decides when a job is over, `controller` does
the work, `ttl` deletes finished jobs; `cronjob` makes the jobs of a cron job when they are
due (docs/spec/controllers.md §7).
"""
