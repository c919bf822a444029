"""The page: nothing gets in unescaped, everybody can read it, it loads nothing and says what must be said."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from page_facts import Page, audit, audit_check, audit_power, claim, guarantee, guarantees, make_run

from fedveil.core.guarantee import SEEDED, Caveat, CaveatKind, Relation
from fedveil.core.rounding import rounded_down
from fedveil.core.types import Unit, View
from fedveil.report.model.published_deployments import published_deployments
from fedveil.report.model.run_facts import (
    ENDED_EARLY,
    CertificateFacts,
    Clients,
    EpsilonLine,
    Options,
    Run,
    SiteFacts,
    Status,
)
from fedveil.report.model.verdict_sentence import CellRisk, times_in_hundred
from fedveil.report.page.first_screen import page_verdict, verdict_section
from fedveil.report.page.guarantee_sentences import guess_words, odds, promise_sentences
from fedveil.report.page.html_page import page_html
from fedveil.report.page.page_frame import POLICY
from fedveil.report.page.stylesheet import DARK, LIGHT, READ_ON, stylesheet

LEAKED = Caveat(CaveatKind.LEAKED_BOUND, "NOT private as it stands: the bound is read from the clients' norms")
HOSTILE = """<script>alert("1")</script><img src=x onerror='alert(2)'>"""


def shown(*runs: Run, **options: bool) -> str:
    return page_html(runs or (make_run(),), Options(**options), made="today", version="0.1.0")


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), READ_ON)
def test_every_text_has_a_contrast_of_at_least_4_5(palette: dict[str, str], text: str, ground: str) -> None:
    one, two = sorted((luminance(palette[text]), luminance(palette[ground])))
    assert (two + 0.05) / (one + 0.05) >= 4.5


def test_colours_are_those_of_the_palettes_alone() -> None:
    assert LIGHT.keys() == DARK.keys()
    rules = stylesheet()
    for colour in (*LIGHT.values(), *DARK.values()):
        rules = rules.replace(colour, "")
    assert "#" not in rules


def test_what_was_only_promised_is_not_called_spent() -> None:
    assert "Verified: spent by the client with the most" in shown(make_run())
    assert "Verified: spent by the client with the most" not in shown(make_run(epsilon_lines_spent=False))
    assert "Promised for so many rounds" in shown(make_run(epsilon_lines_spent=False))


def test_hostile_words_stay_words() -> None:
    run = make_run(
        name=HOSTILE,
        data=HOSTILE,
        data_words=HOSTILE,
        model=HOSTILE,
        spec=HOSTILE,
        problems=(HOSTILE,),
        clips=(HOSTILE,),
        environment={HOSTILE: HOSTILE},
        spent=guarantees(1.5, math.inf, Caveat(CaveatKind.CONDITION, HOSTILE), composition=HOSTILE),
        claims=(claim(1.0, source=HOSTILE, difference=HOSTILE),),
        epsilon_lines=(EpsilonLine(HOSTILE, ((1.0, 1.0), (2.0, 2.0))), EpsilonLine("other", ((1.0, 1.0),))),
        budget=(1.0, HOSTILE),
    )
    for runs in ((run,), (run, run)):
        read = Page(shown(*runs))
        assert not read.all("script")
        assert all(image.get("src", "").startswith("data:image/png;base64,") for image in read.all("img"))
        assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
        assert HOSTILE in "".join(read.texts)


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("options", [{}, {"release": True}, {"pictures": False}])
def test_everybody_can_find_their_way(runs: int, options: dict[str, bool]) -> None:
    read = Page(shown(*[make_run()] * runs, **options))
    assert read.all("html")[0]["lang"] == "en"
    assert len(read.all("main")) == len(read.all("header")) == len(read.all("footer")) == 1
    assert read.headings.count(1) == 1
    assert read.headings[0] == 1
    assert all(later - earlier <= 1 for earlier, later in zip(read.headings, read.headings[1:], strict=False))
    assert all(image.get("alt") for image in read.all("img"))
    assert len(read.all("table")) == len(read.all("caption"))
    assert all(heading.get("scope") in ("row", "col") for heading in read.all("th"))
    charts = [svg for svg in read.all("svg") if svg.get("aria-hidden") != "true"]
    assert charts
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for svg in charts:
        assert svg["role"] == "img"
        assert svg["aria-label"]
        assert svg["aria-describedby"] in ids
    for section in read.all("section"):
        assert section["aria-labelledby"] in ids
    assert all(link["href"] in {f"#{place}" for place in ids} for link in read.all("a"))


def test_every_chart_has_its_numbers_as_a_table() -> None:
    html = shown()
    assert html.count("<summary>The numbers</summary>") == html.count('class="chart"') == 5


@pytest.mark.parametrize("options", [{}, {"release": True}])
def test_nothing_is_loaded_from_anywhere(options: dict[str, bool]) -> None:
    html = shown(make_run(), make_run(), **options)
    assert "http:" not in html
    assert "https:" not in html
    assert "url(" not in html
    assert "@import" not in html
    read = Page(html)
    assert not read.all("link", "script", "iframe", "object", "video", "audio", "base", "form")
    policies = [meta["content"] for meta in read.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [POLICY]
    assert POLICY.startswith("default-src 'none'")


def test_ten_thousand_clients_and_rounds_stay_a_small_page() -> None:
    clients, rounds = 10_000, 10_000
    run = make_run(
        clients=Clients(
            tuple([50] * clients),
            tuple(number % 700 for number in range(clients)),
            "record × server",
            tuple(0.01 * (number % 700) for number in range(clients)),
            tuple(700 - number % 700 for number in range(clients)),
            "At most 700 rounds.",
        ),
        rounds=tuple(
            {"event": "round", "round": number, "accuracy": 0.5, "update_norm": 1.0, "train_loss": 1.0}
            for number in range(rounds)
        ),
    )
    html = shown(run)
    assert len(html) < 150_000
    text = Page(html).text
    assert "10,000 clients in groups" in text
    assert "client 9999" not in text


def test_sites_are_shown_by_their_names_which_never_become_part_of_the_page() -> None:
    names = ("north", "<script>alert(1)</script>", "a & b", "c", "d", "e", "f", "the victim")
    base = make_run().clients
    assert base is not None
    html = shown(make_run(clients=replace(base, names=names, promised=(2.0, 3.0, 4.0))))
    assert "<script>" not in html
    text = Page(html).text
    assert "Each site" in text
    assert "<script>alert(1)</script>" in text
    assert "ε promised (record × server)" in text
    assert "the victim: " in text
    assert "client 2" not in text


def test_a_few_clients_have_a_row_each() -> None:
    text = Page(shown()).text
    assert "client 2" in text
    assert "rounds left" in text
    assert "At most 8 rounds." in text


def row_of(html: str, *beginnings: str) -> list[str]:
    """The one row of the page's tables whose first cells begin so."""
    (only,) = [
        row
        for row in Page(html).rows
        if len(row) >= len(beginnings)
        and all(cell.startswith(beginning) for cell, beginning in zip(row, beginnings, strict=False))
    ]
    return only


def test_every_number_stands_in_its_own_column() -> None:
    promised = (*guarantees(2.0)[:2], guarantee(Unit.RECORD, View.SERVER, 7.5), *guarantees(2.0)[3:])
    spent = (*guarantees(1.5)[:2], guarantee(Unit.RECORD, View.SERVER, 3.5), *guarantees(1.5)[3:])
    html = shown(make_run(promised=promised, spent=spent))
    assert row_of(html, "record × server", "3.5", "7.5")[3].startswith("8 × Gaussian(z = 4)")
    assert row_of(html, "record × server", "0.2")[1:4] == ["0.2", "7.5", "a paper"]  # claimed, verified
    assert row_of(html, "client 1", "100") == ["client 1", "100", "4", "1", "4"]
    both = shown(make_run(name="one", promised=promised, spent=spent), make_run(name="two"))
    assert row_of(both, "one")[4:] != row_of(both, "two")[4:]
    assert "3.5" in row_of(both, "one")
    assert "7.5" not in row_of(both, "one")


def test_no_epsilon_is_printed_below_its_certificate() -> None:
    lines = (EpsilonLine("record × server", ((1.0, 3.33313), (2.0, 7.74649))),)
    html = shown(make_run(spent=guarantees(7.74649), epsilon_lines=lines))
    assert html.count("7.747") > 4  # in sentences, tables, the chart's description, its dots and its numbers
    assert "7.746" not in html
    assert "3.334" in html
    assert "3.333" not in html


def test_no_lower_bound_is_printed_above_what_was_shown() -> None:
    assert [rounded_down(value) for value in (1.5951, 0.99951, 0.0, 12.0, 3.14159)] == [
        "1.59",
        "0.999",
        "0",
        "12",
        "3.14",
    ]
    html = shown(make_run(audits=(audit(epsilon_lower=1.4951, epsilon_lower_if_gaussian=1.49951),)))
    assert "ε is at least 1.49 (1.49 if" in html
    assert row_of(html, "record × server", "1.5", "1.49")
    assert "1.5 if" not in html


@pytest.mark.parametrize(("rmse", "verdict"), [(0.01, "reconstructed"), (0.5, "not recognised")])
def test_a_record_is_called_reconstructed_below_the_threshold_alone(rmse: float, verdict: str) -> None:
    (attack,) = make_run().attacks
    theft = replace(attack.thefts[0], rmse=rmse)
    html = shown(make_run(attacks=(replace(attack, thefts=(theft,)),)))
    assert f"Client 7: {verdict} RMSE" in Page(html).text


@pytest.mark.parametrize("state", ["unfinished", "running"])
def test_an_unfinished_run_is_called_unfinished_first(state: str) -> None:
    text = Page(shown(make_run(status=Status(state, 3, 8, 4)))).text
    assert text.index("unfinished") < text.index("The verdict")
    assert "3 of 8 rounds" in text
    assert ("was begun and paid for" in text) == (state == "unfinished")


def test_a_seeded_run_is_called_not_private_first() -> None:
    text = Page(shown(make_run(seeded=True))).text
    assert text.index("not private: seeded") < text.index("The verdict")
    assert text.index("take any noise off") < text.index("The verdict")


@pytest.mark.parametrize("caveat", [SEEDED, LEAKED])
def test_a_number_that_does_not_hold_is_never_put_into_odds(caveat: Caveat) -> None:
    void = guarantees(1.5, 1.0, caveat)
    for sentence in promise_sentences(void):
        assert "not private" in sentence
        assert "a guess" not in sentence
    html = shown(make_run(spent=void))
    assert "a guess is right" not in html
    assert "a guess is right" in shown()


def test_a_bound_read_from_the_data_is_called_not_private() -> None:
    text = Page(shown(make_run(spent=guarantees(1.5, math.inf, LEAKED)))).text
    assert text.index("not private as it stands") < text.index("The verdict")
    assert text.index(LEAKED.text) < text.index("The verdict")


def test_copies_of_a_record_are_said_beside_the_short_table() -> None:
    caveat = Caveat(CaveatKind.ONE_COPY, "speaks of one client's copy; up to 9 clients hold the same one")
    text = Page(shown(make_run(spent=guarantees(1.5, math.inf, caveat)))).text
    assert "up to 9 clients hold the same one" in text[text.index("The verdict") : text.index("All of it rests on")]


@pytest.mark.parametrize("kind", [kind for kind in CaveatKind if kind.uncovered])
def test_what_no_noise_covers_is_said_beside_the_short_table(kind: CaveatKind) -> None:
    caveat = Caveat(kind, "features are scaled by the means of all records")
    text = Page(shown(make_run(spent=guarantees(1.5, math.inf, caveat)), release=True)).text
    assert "Features are scaled by the means" in text[text.index("The verdict") : text.index("All of it rests on")]


def test_a_broken_audit_is_said_before_any_number() -> None:
    broken = audit(verdict="contradicted", refuted={"delta": 1e-5, "epsilon_lower": 3.0, "epsilon_verified": 1.5})
    text = Page(shown(make_run(audits=(broken,)))).text
    assert text.index("An audit broke the promise") < text.index("The verdict")
    assert "BROKEN" in text


def test_infinite_cells_come_with_their_reason_in_words() -> None:
    sentences = promise_sentences(guarantees(1.5, math.inf))
    assert len(sentences) == 2
    assert "ε = 1.5 at δ = 1e-5" in sentences[0]
    assert "against anybody" in sentences[0]
    assert sentences[1].endswith("nothing is promised against anybody, because no mechanism adds noise.")


def test_a_page_for_release_has_nothing_that_no_guarantee_covers() -> None:
    """Whoever gathers the facts hands over less; the page itself leaves out the rest even if it is there."""
    text = Page(shown(release=True)).text
    assert "Made for release" in text
    for word in ("Training loss", "Size of the updates", "client 2", "Client 7", "How often clients took part"):
        assert word not in text
        assert word in Page(shown()).text
    assert not Page(shown(release=True)).all("img")


def test_pictures_are_called_training_records_and_can_be_left_out() -> None:
    assert "real training records" in Page(shown()).text
    assert len(Page(shown()).all("img")) == 2
    without = Page(shown(pictures=False))
    assert not without.all("img")
    assert "left out" in without.text


def test_where_there_is_no_attack_or_audit_the_command_for_it_stands() -> None:
    text = Page(shown(make_run(attacks=(), audits=()))).text
    assert "With the path of its directory for RUN, fedveil attack RUN --view on_device makes one" in text
    assert "With the path of its directory for RUN, fedveil audit RUN makes one" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": (), "epsilon_lines": (), "spent": None, "clients": None, "status": Status("unfinished", 0, 8, 0)},
        {"promised": None, "spent": None, "clients": None, "parameters": None, "validation": None, "claims": ()},
        {"promised": guarantees(math.inf), "spent": guarantees(math.inf), "epsilon_lines": (), "budget": None},
        {"rounds": ({"event": "round", "round": 0, "accuracy": float("nan"), "update_norm": float("inf")},)},
        {"attacks": (replace(make_run().attacks[0], success_rate=None, rmse=None, blind_rmse=None),)},
    ],
    ids=["no rounds", "nothing known", "nothing promised", "not finite", "an attack without means"],
)
def test_whatever_is_missing_there_is_a_page(changes: dict[str, Any]) -> None:
    for options in ({}, {"release": True}):
        read = Page(shown(make_run(**changes), **options))
        assert read.headings.count(1) == 1


def test_several_runs_begin_with_a_table_of_all() -> None:
    read = Page(shown(make_run(name="first"), make_run(name="second", seeded=True)))
    start = read.text[: read.text.index("The verdict")]
    assert "first" in start
    assert "second" in start
    assert "not private: seeded" in start
    assert "all runs on the same records together cost more" in start


def test_an_epsilon_side_by_side_with_others_says_what_it_rests_on() -> None:
    copied = guarantees(2.0, math.inf, Caveat(CaveatKind.ONE_COPY, "speaks of one client's copy; 3 clients hold it"))
    leaked = guarantees(3.0, math.inf, LEAKED, relation=Relation.REPLACE_ONE)
    html = shown(
        make_run(name="plain"),
        make_run(name="copied", spent=None, promised=copied),
        make_run(name="leaked", spent=leaked),
    )
    assert row_of(html, "plain")[5:7] == ["1.5", "1.5"]
    assert row_of(html, "copied")[5:7] == ["2, promised, of one copy"] * 2
    assert row_of(html, "leaked")[5:7] == ["3, replaced (NOT private)"] * 2
    assert row_of(html, "leaked")[7:] == ["∞", "∞"]
    assert "or replaced where it says so: the two can't be compared" in Page(html).text
    both = shown(make_run(name="one", spent=None), make_run(name="two", spent=None))
    assert row_of(both, "one")[5] == "2"  # nothing that was spent stands beside it


def test_odds_are_those_of_the_best_guess() -> None:
    assert odds(0, 0) == 0.5
    assert odds(float("inf"), 1e-5) == 1.0
    assert odds(1.0, 0.0) == pytest.approx(0.7310586)
    assert odds(0.0, 0.5) == 0.75
    assert guess_words(odds(1.0, 0.0)) == "a guess is right at most 73.2 times in 100"  # rounded up
    assert "no useful protection" in guess_words(odds(20.0, 1e-5))


def test_a_run_that_ended_early_says_why() -> None:
    text = Page(shown(make_run(status=Status("finished", 3, 8)))).text
    assert f"It ended after 3 of 8 rounds: {ENDED_EARLY}." in text


def test_an_audit_whose_check_contradicts_broke_the_promise() -> None:
    half = audit(verdict="contradicted", checks=[audit_check(measured=0.5, chance=1e-9)])
    text = Page(shown(make_run(audits=(half,)))).text
    assert text.index("An audit broke the promise") < text.index("The verdict")
    assert (
        "BROKEN: the noise is not what is declared (its size is 0.500 of it over all coordinates); do not rely" in text
    )


def test_an_inconclusive_audit_is_framed_as_a_warning_and_called_so() -> None:
    html = shown(make_run(audits=(audit(verdict="inconclusive", power=audit_power(noise=0.129)),)))
    assert row_of(html, "record × server", "1.5", "0.1", "0.12 of declared", "100", "1", "inconclusive")
    text = Page(html).text
    assert "record × server: inconclusive" in text
    assert "An audit broke the promise" not in text
    assert "consistent with the promise" not in text


# The first screen


def test_the_page_begins_with_a_verdict_from_the_trade_off() -> None:
    risks = tuple(CellRisk(unit, view, Relation.ADD_OR_REMOVE, 0.5988) for unit in Unit for view in View)
    text = Page(shown(make_run(risks=risks))).text
    assert (
        "Whoever sees everything the server saw guesses right at most 59.9 times in 100 whether one person's record was"
        " used; a coin is right 50 times."
    ) in text
    assert text.index("The verdict") < text.index("Who is protected from whom") < text.index("What is guaranteed")


def test_a_verdict_speaks_of_the_strongest_who_is_kept_from_something() -> None:
    spent = tuple(
        guarantee(unit, view, 1.0 if view is View.RELEASED and unit is Unit.RECORD else math.inf)
        for unit in Unit
        for view in View
    )
    verdict = page_verdict(make_run(spent=spent))
    assert verdict.startswith("Whoever sees every published model guesses right at most 73.2 times")
    assert verdict.endswith("against the server and its operator nothing useful is promised.")
    assert page_verdict(make_run(spent=guarantees(math.inf))).startswith("Nothing useful is promised")
    assert page_verdict(make_run(spent=guarantees(50.0))).startswith("Nothing useful is promised")


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"seeded": True}, "Not private: the noise came from a fixed seed"),
        ({"spent": guarantees(1.5, math.inf, LEAKED)}, "Not private: "),
        ({"status": Status("unfinished", 3, 8, 4)}, "Unfinished: whoever sees everything the server saw"),
        ({"diverged": True}, "Diverged: whoever sees everything the server saw"),
        ({"promised": None, "spent": None}, "No verdict"),
    ],
)
def test_a_verdict_says_first_what_is_wrong(changes: dict[str, Any], start: str) -> None:
    assert page_verdict(make_run(**changes)).startswith(start)


@pytest.mark.parametrize(
    ("share", "answer"), [(0.6, "Yes, kept from it"), (0.8, "Partly"), (0.95, "Hardly"), (0.9995, "No, not kept")]
)
def test_each_adversary_has_an_answer_in_a_word(share: float, answer: str) -> None:
    risks = tuple(CellRisk(unit, view, Relation.ADD_OR_REMOVE, share) for unit in Unit for view in View)
    table = Page(shown(make_run(spent=guarantees(1.5, 1.5), risks=risks))).text.partition("Who finds out what")[2]
    assert table.partition("A guess is right at most so many")[0].count(answer) == 2 * len(View)


def test_sites_stand_by_name_with_their_own_numbers() -> None:
    risks = tuple(CellRisk(Unit.RECORD, view, Relation.ADD_OR_REMOVE, 0.61) for view in (View.SERVER, View.RELEASED))
    sites = (SiteFacts("Kantonsspital", 199, risks, (1.0, 1.0)),)
    text = Page(shown(make_run(sites=sites))).text
    assert "Kantonsspital" in text
    assert "at most 61.0 (ε = 1)" in text
    assert "Sites by name" not in Page(shown(make_run())).text


def test_a_share_is_rounded_up_and_never_to_certainty() -> None:
    assert times_in_hundred(0.59871) == "59.9"
    assert times_in_hundred(0.5) == "50.0"
    assert times_in_hundred(0.99999) == "99.9…"


# Where it stands, and the file


def test_an_epsilon_stands_among_published_ones_with_their_sources() -> None:
    text = Page(shown(make_run())).text
    assert "OpenDP registry" in text
    assert "This training: fed-cdp on cancer" in text
    known = published_deployments()
    assert len(known.entries) >= 20
    assert all(entry.by and entry.unit and entry.address for entry in known.entries)
    assert known.smaller(0.0) == 0
    assert known.smaller(1e9) == len(known.entries)


def test_every_question_of_the_file_leads_to_a_section_that_is_there() -> None:
    read = Page(shown(make_run()))
    assert "NIST SP 800-226" in read.text
    assert "(d) Measures against them" in read.text
    assert "Place and date" in read.text


@pytest.mark.parametrize("sound", [True, False])
def test_a_certificate_is_shown_where_it_is_signed(sound: bool) -> None:
    html = shown(make_run(certificate=CertificateFacts(sound, "what the check said")))
    assert "what the check said" in html
    assert ('class="callout good" role="note"><p class="callout-title">Signed certificate' in html) == sound


def test_the_first_screen_says_how_tests_ended() -> None:
    brief = verdict_section(make_run(attacks=(), audits=(audit(verdict="inconclusive"),)))
    assert "Tested by 1 audit (inconclusive), besides the proof" in brief
    tried = make_run().attacks
    assert "1 attack (records were reconstructed)" in verdict_section(make_run(audits=(), attacks=tried[:1]))
    failed = replace(tried[0], success_rate=0.0)
    assert "1 attack (no record was reconstructed)" in verdict_section(make_run(audits=(), attacks=(failed,)))
    assert "No audit or attack has tested it yet" in verdict_section(make_run(audits=(), attacks=()))
