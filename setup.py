"""The kernels in C. They are optional: without a compiler their twins in Python give the same bits, slower."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "fedveil.native.kernels",
            ["src/fedveil/native/kernels.c"],
            extra_compile_args=["-O3", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        ),
        Extension(
            "fedveil.native.layer_kernels",
            ["src/fedveil/native/layer_kernels.c"],
            extra_compile_args=["-O3", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        ),
    ]
)
