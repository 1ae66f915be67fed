"""From checked tree to answer: `compiler` makes Python code for the hot path, `evaluator` counts costs and traces."""
