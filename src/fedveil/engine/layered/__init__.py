"""Gradients of the networks people bring: their own forward, run once for many clients' examples.

The module's forward runs under `vmap`, as if each example were alone: no operation in it can see another example or
another client, whatever it does along its first axis. Only modules that hold parameters and are known here (`leaves`)
step out of that: they work on all clients' examples at once, each client's with its own weights. Autograd
differentiates activations only; a leaf keeps what it was given and the gradient of what it gave, and from these two
come the norms and the sums of per-example gradients (`contributions`). Parameters of everything else are handed to
`vmap` once for every example, so that autograd gives their gradients example by example.
"""

from fedveil.engine.layered.layered_gradients import Layered

__all__ = ["Layered"]
