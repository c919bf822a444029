from typing import Any

VERSION: int

def lanes() -> int: ...
def run(
    kernel: int, lanes: int, shape: bytes, scratch: Any, one: int, two: int, three: int, four: int, five: int, /
) -> bool: ...
