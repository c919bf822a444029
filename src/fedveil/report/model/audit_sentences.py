"""A membership audit in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedveil.core.words import LEAKED, rounded_down, rounded_up

SEES = {
    "on_device": "every single gradient on the devices",
    "client": "every update on the devices",
    "server": "every client's update as it arrives",
    "released": "every published model",
}
KNOWS = {"record": "one record was used", "client": "one client's records were used"}


def audit_lines(found: Mapping[str, Any]) -> list[str]:
    """What was tried and whether the promise held, for somebody who answers for the data."""
    gaussian = found["epsilon_lower_if_gaussian"]
    lower = f"ε is at least {rounded_down(found['epsilon_lower'])}"
    if gaussian is not None and gaussian > found["epsilon_lower"]:
        lower += f" ({rounded_down(gaussian)} if the noise has the Gaussian shape that it declares)"
    tried = (
        f"An adversary who sees {SEES[found['view']]} tried to tell, {found['canaries']:,} times, whether"
        f" {KNOWS[found['unit']]}, over {found['rounds']} round{'s' * (found['rounds'] > 1)} of {found['method']} on"
        f" {found['data']}; what it got right shows, with confidence {found['confidence']}, that {lower}."
    )
    at = f"(δ = {found['delta']:g})"
    if not found["promised"]:
        second = f"Nothing was promised against this view: {found['details']['reason']}."
    elif found["holds"]:
        second = (
            f"That is within what is proved, ε ≤ {rounded_up(found['epsilon_verified'])} {at}: the audit found nothing"
            " that contradicts the promise."
        )
        leaks = [caveat for caveat in found["details"].get("caveats", ()) if caveat.startswith(LEAKED)]
        second += "".join(f" But it is {leak}." for leak in leaks)
    else:
        broken = found["refuted"]
        second = (
            f"BROKEN: ε ≤ {rounded_up(broken['epsilon_verified'])} was promised at δ = {broken['delta']:g}, and ε ≥"
            f" {rounded_down(broken['epsilon_lower'], 4)} was shown there; do not rely on this promise."
            f" Chance alone says this of a sound one in at most {rounded_up(100 * (1 - found['confidence']), 3)} % of"
            " audits: more --canaries at a higher --confidence rule it out."
        )
    return [tried, second]
