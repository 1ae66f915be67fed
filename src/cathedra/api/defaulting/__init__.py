"""What the API fills in where an object says nothing (spec: api.md, section 4; apimachinery.md, section 16.2).

Defaulting happens right after decoding, before anything looks at the object. `devices` holds the DRA kinds, `pods` the
pod and its template, `workloads` what makes pods, `machinery` the rest. Each function answers the object itself where
there was nothing to fill in.
"""
