"""The public names, pinned: changing them is a decision, not an accident."""

import fedveil


def test_the_public_names_are_these() -> None:
    assert sorted(fedveil.__all__) == [
        "Classification",
        "Dataset",
        "Examples",
        "FedveilError",
        "Method",
        "Regression",
        "Result",
        "Spec",
        "account",
        "attack",
        "audit",
        "from_sites",
        "from_tensors",
        "load",
        "load_model",
        "predict",
        "read_schema",
        "resolve",
        "resume",
        "run",
        "scaled_labels",
    ]
    assert all(hasattr(fedveil, name) for name in fedveil.__all__)
