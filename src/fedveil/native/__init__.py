"""Kernels in C, each with a twin in Python that gives the same bits."""
