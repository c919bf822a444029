"""When a run's models are measured, and where that is noted.

A model that is measured on this machine is measured before it is published, and its figures stand in the event of its
round from the beginning. Real sites that measure are *sent* the model, so it must be published first: after a crash
there would else be a second model of the same round (other noise, other sites that answered), and both would have been
seen for one charge. Their figures are added to the event afterwards. Whoever died in between asks once more: sites give
the answer that they gave, for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedveil.engine.loop import Runtime
from fedveil.engine.personal_models import AtTheirSites, PersonalModels
from fedveil.engine.server_state import ServerState
from fedveil.runs.files import RunFiles
from fedveil.runs.prepare import Prepared
from fedveil.runs.scoring import round_figures


@dataclass(frozen=True)
class Measuring:
    """The figures of a run's models, each measured once, on one side of its publication."""

    prepared: Prepared
    files: RunFiles
    runtime: Runtime
    personal: PersonalModels | AtTheirSites | None

    @property
    def shows_models(self) -> bool:
        """Whether somebody else sees what is measured."""
        return self.prepared.spec.evaluation.counts is not None

    def before_publication(self, state: ServerState) -> dict[str, float]:
        """The figures of a state that nobody outside has seen; none where it is not its turn."""
        return {} if self.shows_models else self._figures(state)

    def after_publication(self, state: ServerState) -> dict[str, float]:
        """The figures of a published state, added to the event of its round."""
        figures = self._figures(state) if self.shows_models else {}
        if figures:
            self.files.add_to_round(state.round - 1, figures)
        return figures

    def catch_up(self, state: ServerState) -> None:
        """Ask for the figures of the last published state, if whoever published it did not live to note them."""
        if not self.shows_models:
            return
        rounds = [event for event in self.files.read_events() if event["event"] == "round"]
        if rounds and rounds[-1]["round"] == state.round - 1 and "loss" not in rounds[-1]:
            self.after_publication(state)

    def _figures(self, state: ServerState) -> dict[str, float]:
        spec = self.prepared.spec
        if state.round % spec.evaluation.every and state.round != spec.method.rounds:
            return {}
        evaluation = self.runtime.evaluate(state)
        return round_figures(self.prepared, evaluation, self.personal) if evaluation.measured else {}
