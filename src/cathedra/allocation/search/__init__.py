"""From claims to devices: `requests` (what is asked, prepared once per pod), `problem` (what that means on one node),
`plain` (the search exactly as Kubernetes walks it), `fast` (the same answer without the walk), `result` (the answer
as an AllocationResult)."""
