"""From template to claim, from pod to reservation, and back: the controller between pods and claims.

`podclaims` says which claim an entry of a pod means, `generation` makes a claim from a template, `controller` does the
work (docs/spec/controllers.md §2).
"""
