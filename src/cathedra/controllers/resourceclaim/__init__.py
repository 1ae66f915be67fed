"""The resourceclaim controller: creates claims from templates for pods, and releases them afterwards.

`maker` creates claims, `release` computes which reservations are no longer needed, and `controller` reconciles claims
(docs/spec/controllers.md §2).
"""
