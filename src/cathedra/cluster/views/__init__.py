"""A cluster as people see it: `overview`, `devicestates`, why a pod waits (`waiting`), counts in words (`wording`)."""
