"""A run of a second, its certificate, and ways to spoil it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from fedveil.certificate.canonical_json import file_form
from fedveil.certificate.document import SignedCertificate
from fedveil.certificate.signatories import sign_certificate
from fedveil.certificate.typed_reading import as_plain, typed
from fedveil.core.signing import SigningKey
from fedveil.runs.run import run

SMALL = {"data.name": "heart", "data.partition": "sites", "local.steps": 2, "batch.size": 5}
SIGNATORY = "Dr. Ada Vogt, data protection officer"


def small_run(directory: Path, *, rounds: int = 2, seed: int | None = None, **settings: Any) -> Path:
    """Fed-CDP on the four hospitals, two steps a round."""
    run("fed-cdp", {**SMALL, **settings}, rounds=rounds, seed=seed, out=directory, workers=1)
    return directory


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values that are no tables or lists."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in items:
            yield from leaves(entry, (*path, key))
    else:
        yield path


def changed(table: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """A copy with one value changed."""
    new = copy.deepcopy(table)
    place = new
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = change(place[path[-1]])
    return new


def another(value: Any, random: Random) -> Any:
    """A value of the same type that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + random.choice((-1, 1, 10**6))
    if isinstance(value, float):
        return value * random.choice((0.5, 0.999999, 1.000001, 2.0)) if value else 1e-3
    if value is None:
        return random.choice((0, "none", []))
    return random.choice((f"{value} ", value[:-1] + "x", value.upper() + "!", ""))


def tampered(content: bytes, number: int) -> bytes:
    """The same certificate with something changed, differently for every number, and never the same bytes."""
    random = Random(number)
    spoil = TAMPERINGS[number % len(TAMPERINGS)]
    while True:
        spoilt = spoil(content, random)
        if spoilt != content:
            return spoilt


def _flipped(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << random.randrange(8))]) + content[place + 1 :]


def _shortened(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content))
    return content[:place] + content[place + random.randrange(1, 9) :]


def _lengthened(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + random.choice((b" ", b"0", b"\n", b'"', b"\0", "\u2028".encode())) + content[place:]


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def _other_value(content: bytes, random: Random) -> bytes:
    table = json.loads(content)
    path = random.choice(list(leaves(table)))
    return file_form(changed(table, path, lambda value: another(value, random)))


def _without(content: bytes, random: Random) -> bytes:
    """A table without one of its fields, a list without one of its entries, or with one twice."""
    table = json.loads(content)
    path = random.choice(list(leaves(table)))
    depth = random.randrange(1, len(path) + 1)
    place = table
    for key in path[: depth - 1]:
        place = place[key]
    key = path[depth - 1]
    if isinstance(place, list) and random.random() < 0.5:
        place.append(place[key])
    else:
        del place[key]
    return file_form(table)


def _other_spelling(content: bytes, random: Random) -> bytes:
    """The same content, written otherwise."""
    table = json.loads(content)
    return random.choice(
        (
            json.dumps(table).encode(),
            json.dumps(table, indent=1, sort_keys=True).encode() + b"\n",
            json.dumps(table, indent=2, sort_keys=True, ensure_ascii=False).encode(),
            content.replace(b"1e-05", b"0.00001"),
            content + b"\n" * random.randrange(1, 9),
        )
    )


def _swapped(content: bytes, random: Random) -> bytes:
    """Two entries of a list change places: cells, sites, steps, caveats, signatories."""
    table = json.loads(content)
    lists = [at for at in _branches(table) if isinstance(_at(table, at), list) and len(_at(table, at)) > 1]
    entries = _at(table, random.choice(lists))
    first, second = random.sample(range(len(entries)), 2)
    entries[first], entries[second] = entries[second], entries[first]
    return file_form(table)


def _exchanged_cells(content: bytes, random: Random) -> bytes:
    """The bounds of two cells, or of two sites, change places, while their names stay."""
    table = json.loads(content)
    body = table["certificate"]
    entries, key = random.choice(((body["cells"], random.choice(("promised", "spent"))), (body["sites"], "bounds")))
    first, second = random.sample(range(len(entries)), 2)
    entries[first][key], entries[second][key] = entries[second][key], entries[first][key]
    return file_form(table)


def _reordered(content: bytes, random: Random) -> bytes:
    """The fields of the body in another order."""
    table = json.loads(content)
    keys = list(table["certificate"])
    random.shuffle(keys)
    shuffled = {"certificate": {key: table["certificate"][key] for key in keys}, "signatures": table["signatures"]}
    return (json.dumps(shuffled, ensure_ascii=False, indent=1) + "\n").encode()


def _without_caveats(content: bytes, random: Random) -> bytes:
    table = json.loads(content)
    cells = [cell for cell in table["certificate"]["cells"] if cell["caveats"]]
    caveats = random.choice(cells)["caveats"]
    del caveats[random.randrange(len(caveats)) :]
    return file_form(table)


def _other_version(content: bytes, random: Random) -> bytes:
    table = json.loads(content)
    version = random.choice((0, 2, 1.5, "1", None, True, -1, 10**12, random.randrange(3, 10**9)))
    table["certificate"]["version"] = version
    return file_form(table)


def _huge(content: bytes, random: Random) -> bytes:
    table = json.loads(content)
    numbers = [at for at in leaves(table) if type(_at(table, at)) in (int, float)]
    huge = random.choice((1e308, -1e308, 2**53, 2**200, 10**400, 5e-324, -1, 1e16))
    return json.dumps(changed(table, random.choice(numbers), lambda _: huge), indent=1, sort_keys=True).encode() + b"\n"


def _signed_by_another(content: bytes, random: Random) -> bytes:
    """An edited number, signed again, as the same person with another key."""
    table, thief = json.loads(content), SigningKey.generate()
    numbers = [at for at in leaves(table) if type(_at(table, at)) is float and "cells" in at]
    table = changed(table, random.choice(numbers), lambda value: value * random.choice((0.5, 0.99, 1.01, 1.0)))
    table["certificate"]["signatories"][0]["key"] = thief.public.hex
    try:
        return signed_anew(table, thief)
    except ValueError:  # no certificate can say that
        return file_form(table)


def _branches(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all tables and lists."""
    if isinstance(value, dict | list):
        yield path
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _branches(entry, (*path, key))


def _at(table: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        table = table[key]
    return table


TAMPERINGS = (
    _flipped,
    _shortened,
    _lengthened,
    _cut,
    _other_value,
    _without,
    _other_spelling,
    _swapped,
    _exchanged_cells,
    _reordered,
    _without_caveats,
    _other_version,
    _huge,
    _signed_by_another,
)
"""Every kind of tampering."""


def signed_anew(table: Any, key: SigningKey) -> bytes:
    """The content as it is, signed by whoever has the key."""
    unsigned = typed({**table, "signatures": []}, SignedCertificate, "file")
    return file_form(as_plain(sign_certificate(unsigned, key)))
