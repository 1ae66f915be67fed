"""From claims to devices, in the order in which data flow:

* `requests` – what is asked, prepared once per pod; `problem` – what that means on one node;
* `tables` – which devices pass the tests that nothing in the call can change, as masks (`masks`);
* `straight` – the first attempt, which serves most pods;
* `fast` – the search, with `state` (what is used up), `candidates` (who may be placed next; `rules` for constraints,
  `meters` for counters), `outlook` (whether it is worth going on) and `symmetry` (what is alike);
* `plain` – the search exactly as Kubernetes walks it, for older releases;
* `budget` – how long a search may take; `result` – the answer as an AllocationResult.
"""
