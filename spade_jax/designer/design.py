"""From a skill, a document and memory to environments with a verdict."""

import dataclasses
from collections.abc import Sequence

import sandbox_runner
from sandbox_runner import BlockingPool
from spade_jax.designer.advice import PromptWorld
from spade_jax.designer.environment import Environment
from spade_jax.designer.memory import Difficulty, Selection
from spade_jax.grounding import Document
from spade_jax.prompts import Prompts
from spade_jax.rollout import Episode, PlaySettings, Task, Trajectory, play
from spade_jax.sampler import Engine
from spade_jax.text import ChatRenderer, ParseProblem, parse_design


@dataclasses.dataclass(frozen=True)
class DesignRequest:
    """What one design is asked for. `document` and `examples` are None when ablated, `difficulty`
    where nothing is said about it."""

    name: str
    skill: str
    document: Document | None
    examples: Selection | None
    sample_seed: int
    difficulty: Difficulty | None = None


@dataclasses.dataclass(frozen=True)
class DesignSettings:
    """Attributes:
    temperature: of the designer's policy.
    max_new_tokens: of a reply.
    max_turns: turn budget of the environments.
    snippet: most characters of a remembered source in a prompt.
    top_k, top_p: of the designer's policy.
    inline_hint: the hint is asked for and written with the source.
    domain: "games" or "tool_use": which environments are asked for.
    """

    temperature: float
    max_new_tokens: int
    max_turns: int
    snippet: int
    top_k: int = 0
    top_p: float = 1.0
    inline_hint: bool = True
    domain: str = "games"


def designer_prompt(
    prompts: Prompts,
    skill: str,
    document: str | None,
    examples: Selection | None,
    snippet: int,
    inline_hint: bool = True,
    domain: str = "games",
    difficulty: Difficulty | None = None,
    max_turns: int = 25,
) -> str:
    """The designer's prompt; the warm start renders its rows with this same function."""
    positives = [] if examples is None else examples.positives
    negatives = [] if examples is None else examples.negatives
    return prompts.render(
        "designer_tools" if domain == "tool_use" else "designer",
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
        difficulty=difficulty
        and {"win_rate": f"{difficulty.win_rate:.1f}", "aim": difficulty.aim},
        max_turns=max_turns,
    )


def prompt_of(prompts: Prompts, request: DesignRequest, settings: DesignSettings) -> str:
    """The prompt of a request."""
    document = request.document.text if request.document else None
    return designer_prompt(
        prompts, request.skill, document, request.examples, settings.snippet,
        settings.inline_hint, settings.domain, request.difficulty, settings.max_turns,
    )  # fmt: skip


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
    how = play_settings(settings)
    tasks = [
        Task(prompt_of(prompts, request, settings), 0, request.sample_seed, how)
        for request in requests
    ]
    episodes = play(engine, chat, PromptWorld(), tasks)
    return [
        _draft(request, episode, step, settings)
        for request, episode in zip(requests, episodes, strict=True)
    ]


def play_settings(settings: DesignSettings) -> PlaySettings:
    """Of one answer of the designer."""
    return PlaySettings(
        settings.temperature, 1, settings.max_new_tokens, settings.top_k, settings.top_p
    )


def _draft(
    request: DesignRequest, episode: Episode, step: int, settings: DesignSettings
) -> Environment:
    environment = Environment(
        name=request.name,
        skill=request.skill,
        document_id=request.document.id if request.document else None,
        reply="",
        born=step,
        trajectory=next(iter(episode.trajectories), Trajectory()),  # of its one turn
    )
    read_answer(environment, episode, settings)
    return environment


def read_answer(environment: Environment, episode: Episode, settings: DesignSettings) -> None:
    """What the designer's last answer holds, or why it holds no environment."""
    environment.reply = episode.replies[-1] if episode.replies else ""
    if not episode.replies:
        environment.reject("context", "the designer's prompt leaves no room for a reply")
    elif episode.unfinished:
        environment.reject("cut", f"the reply ended by {episode.outcome}, not by the designer")
    parsed = parse_design(environment.reply)
    if isinstance(parsed, ParseProblem):
        environment.reject(parsed.stage, parsed.detail)
    else:
        environment.source, environment.hint = parsed.source, parsed.hint or ""
        if settings.inline_hint and not parsed.hint:
            environment.reject("hint", "no line 'Hint: ...' follows the code")


def validate(pool: BlockingPool, environments: Sequence[Environment], max_turns: int) -> None:
    """Runs the sandbox's validation on every draft that is not rejected yet; fills the verdicts."""
    drafts = [environment for environment in environments if environment.accepted]
    verdicts = sandbox_runner.validate(
        pool, [draft.source for draft in drafts], max_turns=max_turns
    )
    for draft, verdict in zip(drafts, verdicts, strict=True):
        draft.shareable, draft.behaviour = verdict.shareable, verdict.behaviour
        if not verdict.accepted:
            draft.reject(verdict.stage, verdict.reason)
