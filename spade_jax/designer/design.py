"""From a skill, a document and memory to environments with a verdict."""

import dataclasses
from collections.abc import Sequence

import sandbox_runner
from sandbox_runner import BlockingPool
from spade_jax.designer.advice import PromptWorld
from spade_jax.designer.environment import Environment
from spade_jax.designer.memory import Selection
from spade_jax.grounding import Document
from spade_jax.prompts import Prompts
from spade_jax.rollout import Episode, PlaySettings, Task, Trajectory, play
from spade_jax.sampler import Engine
from spade_jax.text import ChatRenderer, ParseProblem, parse_design


@dataclasses.dataclass(frozen=True)
class DesignRequest:
    """What one design is asked for. `document` and `examples` are None when ablated."""

    name: str
    skill: str
    document: Document | None
    examples: Selection | None
    sample_seed: int


@dataclasses.dataclass(frozen=True)
class DesignSettings:
    """Attributes:
    temperature: of the designer's policy.
    max_new_tokens: of a reply.
    max_turns: turn budget of the environments.
    snippet: most characters of a remembered source in a prompt.
    top_k, top_p: of the designer's policy.
    inline_hint: the hint is asked for and written with the source.
    """

    temperature: float
    max_new_tokens: int
    max_turns: int
    snippet: int
    top_k: int = 0
    top_p: float = 1.0
    inline_hint: bool = True


def designer_prompt(
    prompts: Prompts,
    skill: str,
    document: str | None,
    examples: Selection | None,
    snippet: int,
    inline_hint: bool = True,
) -> str:
    """The designer's prompt; the warm start renders its rows with this same function."""
    positives = [] if examples is None else examples.positives
    negatives = [] if examples is None else examples.negatives
    return prompts.render(
        "designer",
        skill=skill,
        document=document,
        inline_hint=inline_hint,
        positives=[
            {"win_rate": f"{record.win_rate:.1f}", "source": record.source[:snippet]}
            for record in positives
        ],
        negatives=[
            {"too_easy": too_easy, "title": title(record.source)} for record, too_easy in negatives
        ],
    )


def title(source: str) -> str:
    """A one-line name for a source: its first class and, where it has one, its knob."""
    lines = [line.strip() for line in source.splitlines()]
    name = next((line for line in lines if line.startswith("class ")), "class ?:")
    knob = next((f" {line}" for line in lines if line.startswith("N = ")), "")
    return name.removeprefix("class ").rstrip(":") + knob


def write_designs(
    engine: Engine,
    chat: ChatRenderer,
    prompts: Prompts,
    requests: Sequence[DesignRequest],
    settings: DesignSettings,
    step: int,
) -> list[Environment]:
    """One draft per request, parsed but not yet validated."""
    how = PlaySettings(
        settings.temperature, 1, settings.max_new_tokens, settings.top_k, settings.top_p
    )
    tasks = [
        Task(
            place=designer_prompt(
                prompts,
                request.skill,
                request.document.text if request.document else None,
                request.examples,
                settings.snippet,
                settings.inline_hint,
            ),
            seed=0,
            sample_seed=request.sample_seed,
            settings=how,
        )
        for request in requests
    ]
    episodes = play(engine, chat, PromptWorld(), tasks)
    return [
        _draft(request, episode, step, settings.inline_hint)
        for request, episode in zip(requests, episodes, strict=True)
    ]


def _draft(
    request: DesignRequest, episode: Episode, step: int, needs_hint: bool
) -> Environment:
    reply = episode.replies[-1] if episode.replies else ""
    environment = Environment(
        name=request.name,
        skill=request.skill,
        document_id=request.document.id if request.document else None,
        reply=reply,
        born=step,
        trajectory=next(iter(episode.trajectories), Trajectory()),  # of its one turn
    )
    if not episode.replies:
        environment.reject("context", "the designer's prompt leaves no room for a reply")
    elif episode.unfinished:
        environment.reject("cut", f"the reply ended by {episode.outcome}, not by the designer")
    parsed = parse_design(reply)
    if isinstance(parsed, ParseProblem):
        environment.reject(parsed.stage, parsed.detail)
    else:
        environment.source, environment.hint = parsed.source, parsed.hint or ""
        if needs_hint and not parsed.hint:
            environment.reject("hint", "no line 'Hint: ...' follows the code")
    return environment


def validate(pool: BlockingPool, environments: Sequence[Environment], max_turns: int) -> None:
    """Runs the sandbox's validation on every draft that is not rejected yet; fills the verdicts."""
    drafts = [environment for environment in environments if environment.accepted]
    verdicts = sandbox_runner.validate(
        pool, [draft.source for draft in drafts], max_turns=max_turns
    )
    for draft, verdict in zip(drafts, verdicts, strict=True):
        draft.shareable = verdict.shareable
        if not verdict.accepted:
            draft.reject(verdict.stage, verdict.reason)
