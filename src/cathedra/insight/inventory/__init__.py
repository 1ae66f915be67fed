"""What devices there are, and what holds each of them.

`listing` makes rows and totals of a state, `model` says what they are, `text` draws them for people.
"""
