"""Token rows: exactly the ids that the sampler saw and produced, in order. They only ever grow;
where a chat template rewrites history, another row begins."""

from collections.abc import Sequence

import msgspec


class Trajectory(msgspec.Struct):
    """One training row.

    Attributes:
        tokens: every id of the episode, or of the part since its history was rewritten; length T.
        mask: 1 where this model sampled the token in this very context, else 0; length T.
        logprobs: log-prob of each sampled token under the sampling policy at its temperature; 0
            where the mask is 0; length T.
        temperature: of the sampling policy.
        version: parameter version that sampled it, -1 before the first sampled token.
        malformed: `(start, end)` of each sampled reply that the environment found malformed, in
            order: tokens start to end - 1.
    """

    tokens: list[int] = msgspec.field(default_factory=list)
    mask: list[int] = msgspec.field(default_factory=list)
    logprobs: list[float] = msgspec.field(default_factory=list)
    temperature: float = 1.0
    version: int = -1
    malformed: list[tuple[int, int]] = msgspec.field(default_factory=list)

    def append_context(self, tokens: Sequence[int]) -> None:
        """Adds ids that the model reads: prompt, observation, template."""
        self.tokens += tokens
        self.mask += [0] * len(tokens)
        self.logprobs += [0.0] * len(tokens)

    def append_sampled(
        self, tokens: Sequence[int], logprobs: Sequence[float], version: int
    ) -> None:
        """Adds ids that the model sampled."""
        if len(tokens) != len(logprobs):
            raise ValueError(f"{len(tokens)} sampled tokens but {len(logprobs)} log-probs")
        self.tokens += tokens
        self.mask += [1] * len(tokens)
        self.logprobs += logprobs
        self.version = version

    def branch(self, kept: int) -> "Trajectory":
        """A new row that begins with the first `kept` ids of this one, all of them as context: what
        was sampled among them is trained here, where it was sampled."""
        row = Trajectory(temperature=self.temperature)
        row.append_context(self.tokens[:kept])
        return row

    def mark_malformed(self) -> None:
        """Notes that the sampled tokens at the row's end are a malformed reply."""
        end = start = len(self.tokens)
        while start and self.mask[start - 1]:
            start -= 1
        self.malformed.append((start, end))

    def without_malformed(self) -> "Trajectory":
        """The row with its malformed replies as context."""
        row = msgspec.structs.replace(
            self, mask=list(self.mask), logprobs=list(self.logprobs), malformed=[]
        )
        for start, end in self.malformed:
            row.mask[start:end] = [0] * (end - start)
            row.logprobs[start:end] = [0.0] * (end - start)
        return row

    def num_sampled(self) -> int:
        return sum(self.mask)
