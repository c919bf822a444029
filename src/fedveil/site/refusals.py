"""Why a site says no. The text goes to the coordinator, so it is made of public facts alone, never of records."""

from __future__ import annotations

from enum import StrEnum

from fedveil.core.errors import FedveilError


class RefusalKind(StrEnum):
    """What code looks at; people read the text."""

    UNREADABLE = "unreadable"  # not a message, not signed by the plan's coordinator, or of another protocol
    NOT_APPROVED = "not-approved"  # nobody at this site has agreed to the plan
    WRONG_SITE = "wrong-site"  # the plan does not name this site, or with another key
    WRONG_RECORDS = "wrong-records"  # the plan counts other records here, or encodes them by another schema
    SEEDED = "seeded"  # whoever knows the seed takes the noise off
    UNPROTECTED = "unprotected"  # the plan lacks the noise that the policy asks for
    OVER_BUDGET = "over-budget"  # of the policy, for one plan
    OVER_LIFETIME = "over-lifetime"  # of the policy, for all plans together
    WRONG_QUESTION = "wrong-question"  # nothing that the plan lets the coordinator ask
    LEDGER_SET_BACK = "ledger-set-back"  # the ledger lacks what it held before
    FAILED = "failed"  # something went wrong here; the site's own log says what


class Refused(FedveilError):
    """The site says no."""

    def __init__(self, kind: RefusalKind, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text
