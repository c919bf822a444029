"""The public names, pinned: changing them is a decision, not an accident."""

import fedveil


def test_the_public_names_are_these() -> None:
    assert sorted(fedveil.__all__) == [
        "Dataset",
        "Examples",
        "FedveilError",
        "Method",
        "Result",
        "Spec",
        "account",
        "attack",
        "audit",
        "from_tensors",
        "load",
        "resolve",
        "resume",
        "run",
    ]
    assert all(hasattr(fedveil, name) for name in fedveil.__all__)
