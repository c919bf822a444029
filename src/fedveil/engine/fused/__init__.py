"""Hand-batched gradients of many small networks at once, for plain stacks of dense and convolutional layers.

Every client has its own parameters, so a layer is one batched matrix product over clients, and its
per-example weight gradients are another. Images are kept channels last between layers, which makes the copies
that feed the matrix products run over long stretches of memory.

A client's result does not depend on how many others are computed with it, to the last bit. Batched products
and row-wise reductions have that property; element-wise transcendental functions do not, because the
vectorised code of a loop and the scalar code of its tail round differently. They therefore work on rows kept
apart (see `workspace`).
"""

from fedveil.engine.fused.network import Fused

__all__ = ["Fused"]
