"""``python -m benchmarks.scheduler [NAME ...]``: the workloads whose names contain one of these."""

import sys

from benchmarks.measurement import Measurement
from benchmarks.scheduler import rows

for row in rows(names=sys.argv[1:]):
    print(Measurement(*row).line(), flush=True)
