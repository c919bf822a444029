"""Words of the field where they first stand on a page: explained when the pointer rests on them, and listed below."""

from __future__ import annotations

from fedveil.report.page.markup import Markup, bullet_list, join, tag

GLOSSARY = (
    ("record, client", "of what a guarantee speaks: one example of one client, or everything that one client holds"),
    (
        "ε at δ",
        "whatever an adversary sees, its probability changes by at most a factor e^ε if the record is there or not,"
        " up to δ; 0 is perfect, and no protection is ∞",
    ),
    (
        "right at most … times in 100",
        "an adversary who knows everything but whether the record was used, to whom yes and no were as likely before,"
        " and who makes the best possible guess; 50 is a coin, 100 is certainty. It is a mean over many such guesses:"
        " in a single lucky case somebody may be surer",
    ),
    ("gradient, update", "what one record, or a client's whole round of training, would change in the model"),
    ("clipping", "shortening such a change to a length of at most C, so that no one can change more"),
    ("noise", "random numbers added to it, so large that one record's part can't be made out"),
    (
        "add-or-remove, replace-one, zero-out",
        "with and without the record or client, with another in its place, or with one that sends zero and its noise;"
        " numbers of different kinds cannot be compared",
    ),
    ("composition", "the mechanisms and how often they ran; z is the noise over what one unit can change"),
    ("PLD, RDP", "how it was certified: privacy loss distributions, or Rényi divergences; both round against us"),
    ("canary", "a record that an audit plants, to see whether it can be found again"),
    ("∞", "nothing is promised, for the reason given; never “not computed”"),
)

_EXPLAINED = dict(GLOSSARY)


def explained(shown: str, word: str, place: str) -> Markup:
    """A word with its explanation: on hover, and behind a link to the list for fingers, keyboards and paper."""
    note = tag("sup", tag("a", "?", href=f"#{place}", aria_label=f"What {shown} means"))
    return join([tag("abbr", shown, title=_EXPLAINED[word]), note])


def glossary() -> Markup:
    return bullet_list([join([tag("strong", word), f": {meaning}"]) for word, meaning in GLOSSARY])
