"""Jobs (pods that run until enough of them have succeeded) and cron jobs (jobs on a schedule).

`controller` is the job controller. `pods` creates pods, applies the failure policy and computes the back-off after
failures; `outcome` counts pods and completed indexes, and decides when a job has finished. `ttl` deletes finished jobs,
and `cronjob` creates the jobs of a cron job when they are due (docs/spec/controllers.md §7).
"""
