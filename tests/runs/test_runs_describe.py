"""Sentences about a spec say what its run does."""

from __future__ import annotations

import pytest

from fedveil.config.spec import resolve
from fedveil.runs.describe import clip_words


@pytest.mark.parametrize(
    ("method", "settings", "where"),
    [
        ("fed-cdp", {}, "for every example of a batch, on their sum of gradients, on the client"),
        ("fed-cdp", {"example.each_row": True}, "on each example's gradient by itself, on the client"),
        ("fed-cdp-batch", {}, "once on each batch's sum of gradients, on the client"),
        ("fed-sdp-client", {}, "on each finished update, on the client"),
        ("fed-sdp", {}, "for every update of the round, on their sum, at the server"),
    ],
)
def test_it_is_said_what_the_noise_is_drawn_on(method: str, settings: dict[str, bool], where: str) -> None:
    (sentence,) = clip_words(resolve(method, settings))
    assert sentence.endswith(f"; noise of σ = 6 times that, {where}.")
