"""The kernels in C, and the README as a package index shows it.

The kernels are optional: without a compiler their twins in Python give the same bits, slower. An index shows a README
far from the files that it links, and allows no pictures inside the text. The project has no public address to link
them from, so there the text stands alone.
"""

import re
from pathlib import Path

from setuptools import Extension, setup


def without_files(text: str) -> str:
    """A Markdown text without relative pictures, and with the words of relative links instead of the links."""
    text = re.sub(r"^!\[[^\]]*\]\((?!https?:)[^)]+\)\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#|mailto:)[^)]+\)", r"\1", text)


setup(
    long_description=without_files((Path(__file__).parent / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
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
    ],
)
