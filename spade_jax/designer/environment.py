"""What the run knows about one generated environment, from its first draft to its reward."""

import msgspec
import numpy as np

from spade_jax.rl import Plays
from spade_jax.rollout import Trajectory


class Environment(msgspec.Struct):
    """One design and all that happened to it. Lives in the checkpoint until it is trained.

    Attributes:
        name: unique in the run: "STEP-SLOT[-ATTEMPT]"; of a pool "poolROUND-SLOT[-ATTEMPT]"; of a
            folder its file's.
        skill: that the designer was asked for.
        document_id: of the grounding document, or None.
        reply: the designer's whole text.
        source, hint: parsed from the reply; empty when nothing could be parsed.
        born: step of the design; of a pool or a folder, the step that it was drawn for last.
        stage, reason: the rejection; None and "" for an accepted design. Besides the sandbox's
            stages there are the trainer's own: "context" (the prompt did not fit), "cut" (the reply
            hit its token limit or deadline), "hint" (missing), "hint_leak", "audit", "off_skill"
            and "degenerate".
        shareable: episodes may share one sandbox process.
        knob: the difficulty constant, when the source has one; of "adaptive" the level.
        family: the seed family whose structure it shows, or None; of a folder and of "adaptive" the
            name of the fixed environment.
        verbatim: the source stands word for word in the warm-start data.
        trajectory: of the designer.
        hint_returns: of the plays with the hint, at the weights of step `born`.
        windows: per step since `born`: returns of the valid plays without the hint.
        faults: plays voided by the environment's fault.
        reward: the designer's raw reward; None before it is final, or when the design is left out.
        trained: its delay is over: it was part of an update, or left out for good.
        first_stage: where the first answer was rejected, if the designer was then asked to repair
            it. `trajectory` and `reward` are that answer's, all else is the last one's.
        repaired: answers after the first, each after a rejection.
        novelty, repetition: shares of the skill's records at its birth that were of another kind,
            and of its family and knob, in [0, 1]; None before it was accepted and played.
        behaviour: digest of what it answers to the sandbox's probes; empty before they were run.
        excused: it was rejected for what the designer did not write, so it is left out.
        leaked: its hint held the answers (`hints.check_leaks`).
        audit: "solvable", "unsolvable" or "unknown"; None when nobody was asked.
        judgement: "works", "broken" or "unknown", by the model after play; None as above.
        yardstick: returns of the plays of the server's model.
        baselines: with `agent.baseline=moving`, per arm: moving average of the returns trained.
    """

    name: str
    skill: str
    document_id: str | None
    reply: str
    born: int
    trajectory: Trajectory
    source: str = ""
    hint: str = ""
    stage: str | None = None
    reason: str = ""
    shareable: bool = False
    knob: int | None = None
    family: str | None = None
    verbatim: bool = False
    hint_returns: list[float] = msgspec.field(default_factory=list)
    windows: list[list[float]] = msgspec.field(default_factory=list)
    faults: int = 0
    reward: float | None = None
    trained: bool = False
    first_stage: str | None = None
    repaired: int = 0
    novelty: float | None = None
    repetition: float | None = None
    behaviour: str = ""
    excused: bool = False
    leaked: bool = False
    audit: str | None = None
    judgement: str | None = None
    yardstick: list[float] = msgspec.field(default_factory=list)
    baselines: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        return self.stage is None

    def reject(self, stage: str, reason: str) -> None:
        """Records the first rejection; a later one changes nothing."""
        if self.stage is None:
            self.stage, self.reason = stage, reason

    def reopen(self) -> None:
        """Forgets the rejection, for the answer of one more repair turn."""
        self.first_stage = self.first_stage or self.stage
        self.repaired += 1
        self.stage, self.reason, self.source, self.hint = None, "", "", ""
        self.shareable, self.behaviour = False, ""
        self.knob, self.family, self.verbatim = None, None, False
        self.audit, self.leaked = None, False

    def excuse(self, stage: str, reason: str) -> None:
        """Rejects for what the designer did not write, which it is neither paid nor blamed for."""
        self.excused = self.excused or self.stage is None
        self.reject(stage, reason)

    def plays(self) -> Plays | None:
        """The returns as arrays, or None while an arm has no valid play."""
        if not self.hint_returns or not self.windows or not self.windows[0]:
            return None
        windows = tuple(np.asarray(window, np.float64) for window in self.windows)
        return Plays(np.asarray(self.hint_returns, np.float64), windows)
