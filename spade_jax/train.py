"""The training cycle. Reading `iteration` from top to bottom is reading the algorithm."""

from collections.abc import Iterable, Sequence

from spade_jax import statistics
from spade_jax.cycle import (
    due_designs,
    fill_pool,
    guard,
    make_designs,
    note_novelty,
    pay,
    play_arms,
    trained_arms,
    update,
)
from spade_jax.designer import Environment, Memory, Record, draw_pool, tool_count
from spade_jax.progress import Progress
from spade_jax.rooms import Rooms
from spade_jax.state import RunState


def iteration(
    rooms: Rooms, state: RunState, progress: Progress
) -> tuple[RunState, dict, list[Environment]]:
    """One step: design when due, play both arms, reward, update both roles, remember.

    Returns:
        The next state, this step's metrics and the designs that were written or trained in it. The
        given state is used up.
    """
    config, records = rooms.config, state.records
    step = records.step
    rooms.sample_with(state.learner, *rooms.engines)
    if config.sampler.warm_up:
        for engine in rooms.engines.values():
            engine.warm_up()

    fresh: list[Environment] = []
    if config.curriculum.fixed_pool:
        records.pool = records.pool or fill_pool(rooms, state, progress)
        live = draw_pool(records.pool, config.curriculum.num_envs, config.seed, step)
    else:
        if step % config.curriculum.regen_interval == 0:
            regeneration = step // config.curriculum.regen_interval
            fresh = make_designs(rooms, state, progress, f"{step:05d}", regeneration)
            records.designs += fresh
        live = _alive(records.designs, step, config.curriculum.regen_interval)
    rooms.rest("designer")

    with progress.phase("play"):
        episodes = play_arms(rooms, live, step)
    with progress.phase("guard"):
        guard(rooms, fresh, live, episodes, step)
    due = due_designs(records.designs, step, config)
    note_novelty(fresh, Memory.from_json(records.memory, rooms.memory_settings).records)
    before, records.averages = records.averages, pay(rooms, due, records.averages)
    rooms.rest("agent")
    rooms.hosts.agree("the step", step)  # before devices wait for each other, without a deadline
    with progress.phase("update"):
        state, learned = update(rooms, state, live, episodes, due)
    rooms.hosts.agree(f"the update of step {step}", learned)
    memory = _remember(rooms, records, fresh, step)

    born = [e for e in live if e.born == step and e.accepted]
    groups = config.agent.group, trained_arms(config)
    metrics = {
        **statistics.designs(fresh),
        **statistics.environments(born, due),
        **statistics.plays(episodes, *groups),
        **statistics.by_skill(fresh, born, live, episodes, *groups),
        **statistics.averages(before, records.averages),
        **statistics.sampling(rooms.engines, rooms.hosts),
        **learned,
        **statistics.memory(memory, fresh),
    }
    touched = {design.name: design for design in (*fresh, *due)}
    alive = _names(_alive(records.designs, step + 1, config.curriculum.regen_interval))
    records.designs = [d for d in records.designs if not d.trained or d.name in alive]
    records.step = step + 1
    return state, metrics, list(touched.values())


def _names(designs: Iterable[Environment]) -> set[str]:
    return {design.name for design in designs}


def _alive(designs: Sequence[Environment], step: int, interval: int) -> list[Environment]:
    """The accepted designs of the regeneration epoch that `step` belongs to."""
    return [d for d in designs if d.accepted and d.born // interval == step // interval]


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
