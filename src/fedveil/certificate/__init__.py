"""Certificates: one signed file that says what a training guarantees, and from which every ε can be computed again.

`document` is what a certificate says, `canonical_json` its one form as bytes, `typed_reading` the way back, strict
about everything, `signatories` who signs for what, `run_digests` what of a run a certificate is held to, `verify` the
check of a stranger's file. Nothing here needs PyTorch, records or a network, and nothing that a file names is imported.
"""
