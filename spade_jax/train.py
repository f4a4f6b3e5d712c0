"""The training cycle. Reading `iteration` from top to bottom is reading the algorithm."""

from collections.abc import Sequence

from spade_jax import statistics
from spade_jax.cycle import (
    advice_metrics,
    draw_retired,
    due_designs,
    guard,
    judge_new,
    measure,
    note_novelty,
    open_source,
    pay,
    play_arms,
    retire,
    update,
)
from spade_jax.designer import Environment, Memory, Record, tool_count
from spade_jax.progress import Progress
from spade_jax.rooms import Rooms
from spade_jax.state import RunState


def iteration(
    rooms: Rooms, state: RunState, progress: Progress
) -> tuple[RunState, dict, list[Environment]]:
    """One step: design when due, play both arms and what has retired, reward, update, remember.

    Returns:
        The next state, this step's metrics and the designs that were written or trained in it. The
        given state is used up.
    """
    config, records = rooms.config, state.records
    step, source = records.step, open_source(config)
    engines = {role: rooms.engines[role] for role in source.roles}
    rooms.sample_with(state.learner, *engines)
    if config.sampler.warm_up:
        for engine in engines.values():
            engine.warm_up()

    fresh, live = source.lesson(rooms, state, progress)
    again = draw_retired(rooms, records)
    played = [*live, *again]
    rooms.rest("designer")

    with progress.phase("play"):
        episodes = play_arms(rooms, played, step)
    with progress.phase("guard"):
        guard(rooms, fresh, played, episodes, step)
    judge_new(rooms, fresh, played, episodes, progress)
    measure(rooms, live, progress)
    due = due_designs(records.designs, step, config)
    note_novelty(fresh, Memory.from_json(records.memory, rooms.memory_settings).records)
    before, records.averages = records.averages, pay(rooms, due, records.averages)
    rooms.rest("agent")
    rooms.hosts.agree("the step", step)  # before devices wait for each other, without a deadline
    with progress.phase("update"):
        state, learned = update(rooms, state, played, episodes, due)
    rooms.hosts.agree(f"the update of step {step}", learned)
    memory = _remember(rooms, records, fresh, step)
    retired, pooled = source.settle(rooms, records, live)

    born = [e for e in live if e.born == step and e.accepted]
    of_live = {arm: of_arm[: len(live)] for arm, of_arm in episodes.items()}
    metrics = {
        **statistics.designs(fresh),
        **statistics.environments(born, due),
        **statistics.amounts(episodes),
        **statistics.plays(of_live),
        **statistics.by_skill(fresh, born, live, of_live),
        **statistics.averages(before, records.averages),
        **statistics.sampling(engines, rooms.hosts),
        **learned,
        **statistics.memory(memory, fresh),
        **advice_metrics(rooms, fresh, live),
        **pooled,
        **retire(rooms, records, again, retired),
    }
    touched = {design.name: design for design in (*fresh, *due)}
    records.step = step + 1
    return state, metrics, list(touched.values())


def _remember(rooms: Rooms, records, fresh: Sequence[Environment], step: int) -> Memory:
    """The memory with this step's new, accepted and played environments, which it also records.

    Also without `memory.enabled`, which is about what the designer is shown.
    """
    memory = Memory.from_json(records.memory, rooms.memory_settings)
    for design in fresh:
        plays = design.plays()
        if plays is None or not design.accepted:
            continue
        memory.add(
            Record(
                source=design.source,
                skill=design.skill,
                win_rate=max(0.0, plays.first),
                regret=max(0.0, plays.gap),
                step=step,
                document_id=design.document_id,
                knob=design.knob,
                family=design.family,
                length=len(design.source),
                tools=tool_count(design.source),
                behaviour=design.behaviour,
            )
        )
    records.memory = memory.to_json()
    return memory
