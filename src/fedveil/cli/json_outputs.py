"""What `--json` prints, command by command, as types: the JSON schemas in the documents are made of them.

A field that may be missing is `NotRequired`; one that may be empty is `None` in its type. `Number` is a number, or
`"inf"` where it is infinite.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Number = float | Literal["inf"]
UnitName = Literal["record", "client"]
ViewName = Literal["on_device", "client", "server", "peer", "released"]


class CaveatOutput(TypedDict):
    """What an ε rests on. Programs look at the `kind`, people read the `text`."""

    kind: str
    text: str


class HitRateOutput(TypedDict):
    """An attacker's largest true-positive rate at a false-positive rate."""

    fpr: float
    tpr: float


class RiskOutput(TypedDict):
    """What a finite ε leaves to an attacker who guesses whether a record was used."""

    right_guess: float
    advantage: float
    best_fpr: float
    tpr_at_fpr: list[HitRateOutput]
    mean: float | None


class SecondaryOutput(TypedDict):
    """The same by another accountant, for comparison with papers; never the certificate."""

    accountant: str
    epsilon: Number
    note: str


class GuaranteeOutput(TypedDict):
    """One cell: (ε, δ) of a unit against a view. `reason` says why an ε is infinite, and is empty otherwise."""

    unit: UnitName
    view: ViewName
    relation: str
    epsilon: Number
    delta: float
    accountant: str
    composition: str
    caveats: list[CaveatOutput]
    reason: str
    secondary: NotRequired[list[SecondaryOutput]]
    epsilon_of_all_copies: NotRequired[Number]
    risk: NotRequired[RiskOutput]


class ClaimOutput(TypedDict):
    """What a paper claims, and why the verified ε differs."""

    unit: UnitName
    view: ViewName
    epsilon: Number
    delta: float
    source: str
    formula: str
    difference: str
    mean: NotRequired[Number]


class SiteEpsilonOutput(TypedDict):
    """A named site's own ε."""

    name: str
    records: int
    rounds: int | None
    promised: Number
    spent: Number | None


class SitesOutput(TypedDict):
    """Each named site's own ε of one cell."""

    unit: UnitName
    view: ViewName
    delta: float
    sites: list[SiteEpsilonOutput]


class RunOutput(TypedDict):
    """`run`, `resume`: how a training ended, and what it spent."""

    run: str
    method: str
    data: str
    accuracy: float | None
    loss: float
    rounds: int
    seconds: float
    seeded: bool
    receipts: int
    rejected: int
    guarantees: list[GuaranteeOutput]
    own_accuracy: float | None
    personal_accuracy: float | None
    own_mae: float | None
    personal_mae: float | None
    sent_bytes: int
    saved_bytes: int
    site_guarantees: SitesOutput | None
    ledger_head: str | None
    scores: dict[str, Any] | None
    diverged: bool


class ClientsOutput(TypedDict):
    """What each client has spent of its own, in one cell."""

    unit: UnitName
    view: ViewName
    epsilon: list[Number]


class AccountOutput(TypedDict):
    """`account`: what is promised, or what a run has spent. `promised`, `ledger`, `per_client` only of a run."""

    guarantees: list[GuaranteeOutput]
    beside: NotRequired[list[GuaranteeOutput]]
    promised: NotRequired[list[GuaranteeOutput]]
    ledger: NotRequired[dict[str, Any] | None]
    per_client: NotRequired[ClientsOutput]
    sites: NotRequired[SitesOutput]
    claimed: list[ClaimOutput]


class CalibrateOutput(TypedDict):
    """`calibrate`: the answer and what it guarantees; `spec` where a file was asked for."""

    solved: Literal["noise", "rounds", "cohort"]
    value: float
    guarantee: GuaranteeOutput
    spec: NotRequired[str]


class RowEpsilonOutput(TypedDict):
    """ε of one cell of a row: promised, and the most that a run spent. No relation where nothing is promised."""

    promised: Number
    spent: Number | None
    relation: str | None


class StudyRowOutput(TypedDict):
    """Repeated runs of one spec. `figure` names the field of the main figure; `void`: the ε can't be relied on."""

    method: NotRequired[str]
    point: NotRequired[dict[str, Any]]
    base: str
    runs: int
    failed: int
    seeded: bool
    figure: Literal["accuracy", "rmse"]
    unit: str
    accuracy: NotRequired[float | None]
    rmse: NotRequired[float | None]
    deviation: float | None
    best: float | None
    majority: float | None
    loss: float | None
    rounds: int | None
    seconds: float | None
    rejected: int
    rejected_updates: int
    delta: float
    epsilon: dict[str, RowEpsilonOutput]
    void: bool
    caveats: list[str]
    claimed: list[ClaimOutput]


class CompareOutput(TypedDict):
    """`compare`: a row per method."""

    out: str
    picture: str | None
    table: str
    methods: list[StudyRowOutput]
    notes: list[str]
    failed: list[str]


class SweepOutput(TypedDict):
    """`sweep`: a row per point of the grid."""

    out: str
    picture: str | None
    table: str
    keys: list[str]
    points: list[StudyRowOutput]
    notes: list[str]
    failed: list[str]


class AttackSummaryOutput(TypedDict):
    """Means over all victims, each with its standard deviation; null where there is none, as SSIM of table rows."""

    success_rate: float
    rmse: float | None
    rmse_std: float | None
    mse: float | None
    mse_std: float | None
    psnr: float | None
    psnr_std: float | None
    ssim: float | None
    ssim_std: float | None
    label_accuracy: float | None
    label_accuracy_std: float | None
    iterations: float | None
    iterations_std: float | None


class AttackOutput(AttackSummaryOutput):
    """`attack`: the strongest of those that were `tried`. `blind_rmse` is the error of a constant guess."""

    method: str
    data: str
    model: str
    view: ViewName
    attack: str
    victims: int
    seeds: int
    threshold: float
    blind_rmse: float
    facts: dict[str, Any]
    composition: dict[str, Any]
    tried: dict[str, AttackSummaryOutput]
    seconds: float
    picture: NotRequired[str]
    per_victim: list[dict[str, Any]]


class PowerOutput(TypedDict):
    """What an audit could have noticed: noise below the share `noise` of what is declared, with `probability`."""

    answers: int
    possible: float
    noise: float
    canaries_needed: int | None
    probability: float


class CheckOutput(TypedDict):
    """One part compared with its declaration; it contradicts where the `chance` is below the `level`."""

    kind: str
    measured: Number
    chance: float
    level: float
    samples: int
    contradicts: bool


class RefutedOutput(TypedDict):
    """Where guesses break the verified curve."""

    delta: float
    epsilon_lower: float
    epsilon_verified: float


class AuditOutput(TypedDict):
    """`audit`: a verdict, a lower bound beside the verified ε, and what could have been noticed.

    `canaries` were guessed; where it was interrupted, more were planned.
    """

    verdict: str
    method: str
    data: str
    unit: UnitName
    view: ViewName
    rounds: int
    canaries: int
    planned_canaries: int
    confidence: float
    epsilon_lower: float
    epsilon_lower_if_gaussian: float | None
    epsilon_verified: Number
    delta: float
    relation: str
    refuted: RefutedOutput | None
    power: PowerOutput | None
    checks: list[CheckOutput]
    seeded: bool
    details: dict[str, Any]


class DemoAttackOutput(TypedDict):
    """One of the demonstration's two attacks."""

    victims: int
    reconstructed: int
    rmse: float | None


class DemoOutput(TypedDict):
    """`demo`: both attacks, both trainings."""

    data: str
    attack: dict[str, DemoAttackOutput]
    picture: str
    plain: RunOutput
    private: RunOutput
    report: str
    seconds: float


class ChoiceOutput(TypedDict):
    """A key that a front door chose, and why."""

    key: str
    value: Any
    reason: str


class ExplainOutput(TypedDict):
    """`explain`: the spec that would run, and what was chosen for it."""

    spec: dict[str, Any]
    choices: list[ChoiceOutput]


class MethodOutput(TypedDict):
    """A method by the name that commands take."""

    name: str
    paper: str
    summary: str


class MethodsOutput(TypedDict):
    """`methods`."""

    methods: list[MethodOutput]


class FindingOutput(TypedDict):
    """Something that is here or not; `mend` is the command that mends it."""

    name: str
    found: str
    well: bool
    disables: str
    mend: str


class DoctorOutput(TypedDict):
    """`doctor`."""

    findings: list[FindingOutput]


class SetOutput(TypedDict):
    """A data set, and whether its files are here and sound."""

    name: str
    available: bool


class SetsOutput(TypedDict):
    """`data list`."""

    sets: list[SetOutput]


class ReproductionOutput(TypedDict):
    """A table or figure that can be made again, and about how long that takes."""

    name: str
    title: str
    small: str
    paper: str


class ReproduceOutput(TypedDict):
    """`reproduce`: the list without a name; with one, the rows that were asked for."""

    reproductions: NotRequired[list[ReproductionOutput]]
    name: NotRequired[str]
    scale: NotRequired[Literal["small", "paper"]]
    out: NotRequired[str]
    table: NotRequired[str]
    picture: NotRequired[str]
    page: NotRequired[str | None]
    rows: NotRequired[list[dict[str, Any]]]
    notes: NotRequired[list[str]]
    failed: NotRequired[list[str]]


class ReportedRunOutput(TypedDict):
    """A run on a page."""

    name: str
    state: str
    rounds: int
    planned: int
    attacks: int
    audits: int
    problems: list[str]


class ReportOutput(TypedDict):
    """`report`: of runs, or of a site (`site`, `receipts`, `answers`, `plans`)."""

    report: str
    runs: NotRequired[list[ReportedRunOutput]]
    receipts: NotRequired[str]
    site: NotRequired[str]
    answers: NotRequired[int]
    plans: NotRequired[int]


class KeyOutput(TypedDict):
    """`key`: the two files, and the fingerprint of the public one."""

    private: str
    public: str
    fingerprint: str


class CertifyOutput(TypedDict):
    """`certify`."""

    certificate: str
    verdict: str
    attention: list[str]
    waiting_for: list[str]
    registry: str | None


class VerifyOutput(TypedDict):
    """`verify`: `holds` is what counts."""

    holds: bool
    verdict: str
    attention: list[str]
    digest: str
    compositions: int
    signed_by: list[str]
    replayed: bool


class PredictOutput(TypedDict):
    """`predict`: how many rows, and how many of each class."""

    target: str
    rows: int
    left_out: int
    out: str | None
    classes: NotRequired[dict[str, int]]


class SchemaCheckOutput(TypedDict):
    """`schema check`: what a schema makes of a table, and of each file."""

    schema: dict[str, Any]
    tables: dict[str, dict[str, Any]]


class FederationDemoOutput(TypedDict):
    """`federation demo`."""

    accuracy: float | None
    spent: dict[str, float]
    seconds: float
    model: str
    report: str


class PolicyOutput(TypedDict):
    """What a site allows: one plan, and all plans together."""

    unit: UnitName
    view: ViewName
    epsilon: float
    delta: float
    lifetime_epsilon: float
    lifetime_delta: float
    rehearsal: bool


class SitePlanOutput(TypedDict):
    """A plan at a site."""

    hash: str
    name: str
    charged: int
    answered: int
    last_round: int | None
    last_time: str | None
    spent: Number
    withdrawn: str | None


class SiteStatusOutput(TypedDict):
    """`site status`, and `status` of a site's directory: what was asked, paid and sent, and what is left."""

    site: str
    records: int
    policy: PolicyOutput
    spent: Number
    left: Number
    plans: list[SitePlanOutput]
    ledger: str
    last_problem: str


class SiteContactOutput(TypedDict):
    """A site as its coordinator knows it; `last_heard` in seconds."""

    name: str
    records: int
    answers: int
    missed: int
    last_round: int | None
    problem: str
    text: str
    spent: Number | None
    last_heard: float | None


class FederationStatusOutput(TypedDict):
    """`federation status`, and `status` of a coordinator's directory. `counted`: sites measured it, with noise."""

    plan: str
    hash: str
    rounds: int
    planned: int
    finished: bool
    running: bool
    delta: float
    figure: str
    quality: float | None
    counted: bool
    sites: list[SiteContactOutput]


OUTPUTS: dict[str, Any] = {
    "demo": DemoOutput,
    "run": RunOutput,
    "resume": RunOutput,
    "compare": CompareOutput,
    "sweep": SweepOutput,
    "reproduce": ReproduceOutput,
    "explain": ExplainOutput,
    "predict": PredictOutput,
    "account": AccountOutput,
    "calibrate": CalibrateOutput,
    "attack": AttackOutput,
    "audit": AuditOutput,
    "report": ReportOutput,
    "key": KeyOutput,
    "certify": CertifyOutput,
    "verify": VerifyOutput,
    "methods": MethodsOutput,
    "doctor": DoctorOutput,
    "data list": SetsOutput,
    "schema check": SchemaCheckOutput,
    "site status": SiteStatusOutput,
    "federation run": RunOutput,
    "federation status": FederationStatusOutput,
    "federation demo": FederationDemoOutput,
    "status": SiteStatusOutput | FederationStatusOutput,
}
"""By the command's words."""
