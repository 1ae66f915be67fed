"""The resourceclaim controller: creates claims from templates for pods, and releases them afterwards.

`maker` creates claims, `release` computes which reservations are no longer needed, `podindexes` finds the pods of a
claim, template or group, and `controller` reconciles claims (docs/spec/controllers.md §2).
"""
