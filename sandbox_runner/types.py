"""The values that cross the runner's public face."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Budgets of one environment program and bounds of one pool. Times are seconds.

    CPU times are charged to the child process alone, so a busy machine never fails an innocent
    program. `sleep_wall` is how long a child may sleep inside a call, not counting the time it
    waits for a processor; `call_wall` is the last resort for anything else.
    """

    load_cpu: float = 2.0
    call_cpu: float = 1.0
    play_cpu: float = 8.0  # all scripted episodes of one validation request together
    process_cpu: float = 600.0  # whole life of a child; a kernel limit
    sleep_wall: float = 2.0
    call_wall: float = 300.0
    observation_bytes: int = 64 * 1024  # with the tools of a reset or the tool results of a step
    memory_bytes: int = 256 * MEBIBYTE  # on top of what the preloaded modules take
    print_bytes: int = 10_000_000
    total_bytes: int = 0  # memory of all children together; 0 for half of the machine's
    open_files: int = 16
    max_children: int = 2048
    max_in_flight: int = 128  # requests that wait for an answer, over all children
    start_wall: float = 120.0  # until a zygote has imported everything
    packages: tuple[str, ...] = ()  # that programs may import, besides numpy and math_verify
    allow_missing: tuple[str, ...] = ()  # layers that a host may lack: see confine.REQUIRED


class EnvError(Exception):
    """The environment's fault, as a value: `stage` names what was broken, `detail` says how.

    Stages are those of validation: "parse", "load", "contract", "robustness", "limits", ...
    """

    def __init__(self, stage: str, detail: str) -> None:
        super().__init__(f"{stage}: {detail}")
        self.stage = stage
        self.detail = detail


class RunnerError(Exception):
    """The runner's or its caller's fault; never the environment's."""


class ConfinementError(RunnerError):
    """This host cannot contain untrusted programs, however often it is tried."""


class BatchError(RunnerError):
    """The runner failed in some items of a batch: `results` has a RunnerError in their places, and
    in all others what was answered."""

    def __init__(self, message: str, results: list) -> None:
        super().__init__(message)
        self.results = results


class Observation(msgspec.Struct, frozen=True):
    """What the Agent sees after a reset.

    `tools` are the schemas of what it may call, in the form {"type": "function", "function":
    {"name", "description", "parameters"}}; none for an environment without `get_tools`.
    """

    text: str
    tools: tuple[dict[str, Any], ...] = ()


class StepResult(msgspec.Struct, frozen=True):
    """One step. `reward` is finite and in [-10, 10]; `truncated` is also set at the turn budget.

    `tool_results` are the texts that answer the calls of a reply, in their order, None for a reply
    without calls. `observation` is these texts joined by newlines; after another newline follows
    what else the reply brought, if it also answered. `malformed`: the reply broke the format, by a
    call that is none or by neither calling nor answering.
    """

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    tool_results: tuple[str, ...] | None = None
    malformed: bool = False


class Session(msgspec.Struct, frozen=True):
    """A handle on one environment instance of a pool. Only that pool can use it."""

    id: int


@dataclass(frozen=True)
class Verdict:
    """What validation found.

    `stage` and `reason` name the first broken rule (None and "" when accepted). `shareable` says
    that instances of this program were shown not to disturb each other in one process.
    `measurements` are plain numbers: times in milliseconds, sizes in characters, rates in [0, 1].
    `behaviour` is a digest of what the program answers to fixed probes, equal for programs that
    cannot be told apart by them; empty when it was not asked.
    """

    accepted: bool
    stage: str | None
    reason: str
    shareable: bool
    measurements: dict[str, float] = field(default_factory=dict)
    behaviour: str = ""
