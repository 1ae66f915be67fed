"""From requests to devices:

* `straight` – the first attempt, which serves most pods;
* `fast` – the search, with `state` (what is used up), `candidates` (who may be placed next; `rules` for constraints,
  `meters` for counters), `outlook` and `room` (whether it is worth going on) and `symmetry` (what is alike);
* `plain` – the search exactly as Kubernetes walks it, for older releases;
* `budget` – how long a search may take; `masks` – sets of devices as integers.
"""
