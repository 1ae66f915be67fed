"""Who owns which field: field sets, typed comparison and merging, managers (docs/spec/apimachinery.md §6.5).

`fieldset` is the set algebra, `typed` walks values along their shape, `managers` keeps an object's
``metadata.managedFields``, `creation` knows what a new object's creator owns, `tracking` joins that to writes.
"""
