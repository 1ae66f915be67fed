"""From requests to devices, in the order in which they are tried:

* `greedy` – the first attempt without any bookkeeping, which serves most pods;
* `fast` – the search, with `frames` (its stack), `state` (what is used up), `candidates` (the devices that may be
  placed next, as `restrictions` admit them: `constraints`, `counters` and `shares`), `lookahead` and `capacity_bound`
  (whether to go on) and `symmetry` (what is alike);
* `plain` – the search exactly as Kubernetes walks it, for older releases;
* `budget` – how long a search may take; `masks` – sets of devices as integers.

`docs/allocation-search.md` draws it.
"""
