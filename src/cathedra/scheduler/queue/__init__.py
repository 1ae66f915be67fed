"""The scheduling queue: `queue` holds waiting pods, and the events that arrive while a pod is being tried, so that none
is lost; `queuedpod` is a pod in it."""
