"""The accountant: what is proved, against whom. It reads declarations and charges, and nothing of the engine.

`context` is all it must know of a training, `plan` promises a table of guarantees and computes what a run has spent,
`calibrate` solves a cell for noise, rounds or cohort, `claims` gives the papers' own numbers with the reason for the
difference, `budget` decides what may still run, `tradeoff` is about f-differential privacy.
"""
