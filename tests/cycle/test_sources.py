"""Where live environments come from, and what becomes of them after a step."""

from types import SimpleNamespace

import pytest

from configs import base
from sandbox_runner import BlockingPool
from spade_jax.curricula import Archived, CurriculumRecords, Standing, seed_environments
from spade_jax.cycle import PoolError, open_source
from spade_jax.cycle.replaying import draw_retired, retire
from spade_jax.designer import Environment
from spade_jax.envs.library import DOMAINS
from spade_jax.parallel import Hosts
from spade_jax.rollout import Trajectory
from spade_jax.state import Records
from tests.curricula.files import CONTRACT, CONTROLLER, GEM, RLVE


@pytest.fixture(scope="module")
def pool():
    with BlockingPool() as pool:
        yield pool


def make_rooms(pool=None, **curriculum):
    config = base.get_config()
    config.curriculum.update(curriculum)
    config.agent.max_turns = 12
    return SimpleNamespace(config=config, hosts=Hosts(), pool=pool)


def environment(name, *returns, born=0, stage=None):
    made = Environment(name, "a", None, "", born, Trajectory(), source=f"class {name}", hint="h")
    made.windows, made.stage = [list(returns)], stage
    return made


def archived(name, win_rate):
    return Archived(name, "a", "source", True, 0, win_rate, win_rate)


def lesson(rooms, records):
    return open_source(rooms.config).lesson(rooms, SimpleNamespace(records=records), None)


@pytest.mark.parametrize(
    "source,fixed_pool,named",
    [("designer", 0, "Designed"), ("designer", 24, "Pool"), ("pool", 24, "Pool"),
     ("folder", 0, "Folder"), ("adaptive", 0, "Adaptive")],
)  # fmt: skip
def test_a_fixed_pool_alone_asks_for_a_pool(source, fixed_pool, named):
    config = make_rooms(source=source, fixed_pool=fixed_pool).config
    assert type(open_source(config)).__name__ == named


def test_accepted_designs_retire_with_their_epoch():
    rooms = make_rooms(regen_interval=2)
    live = [environment("a", 1.0, 0.0), environment("b", 0.0, stage="degenerate")]
    records = Records(designs=list(live))
    source = open_source(rooms.config)
    assert source.settle(rooms, records, live).retired == [] and len(records.designs) == 2
    records.step, live[0].trained, live[1].trained = 1, True, True
    live[0].windows.append([1.0, 1.0])
    (retired,) = source.settle(rooms, records, live).retired
    assert (retired.name, retired.win_rate) == ("a", 0.75)
    assert records.designs == []


def test_a_pool_without_a_lifecycle_keeps_everybody():
    rooms = make_rooms(source="pool", fixed_pool=3, num_envs=2)
    records = Records(pool=[environment(name, 1.0) for name in "abc"])
    fresh, live = lesson(rooms, records)
    assert fresh == [] and len(live) == 2 and all(e.windows == [] for e in live)
    for each in live:
        each.windows.append([1.0] * 99)
    settled = open_source(rooms.config).settle(rooms, records, live)
    assert settled == ([], {"pool/size": 3, "pool/pass": 1, "pool/left": 1})
    assert records.curriculum.tallies == {}


def test_what_leaves_the_band_leaves_the_pool_and_retires():
    rooms = make_rooms(source="pool", num_envs=3, lifecycle=True, lifecycle_plays=2)
    live = [environment("easy", 1, 1), environment("good", 0, 1), environment("few", 0)]
    records = Records(pool=list(live))
    records.curriculum.deck.left = ["good", "easy"]
    retired, metrics = open_source(rooms.config).settle(rooms, records, live)
    assert [(each.name, each.win_rate) for each in retired] == [("easy", 1.0)]
    assert [each.name for each in records.pool] == ["good", "few"]
    assert metrics == {"pool/size": 2, "pool/pass": 0, "pool/left": 1, "pool/dropped": 1}
    assert records.curriculum.tallies["few"].plays == 1


def test_a_pool_that_teaches_nothing_any_more_stops_the_run_with_its_numbers():
    rooms = make_rooms(source="folder", lifecycle=True, lifecycle_plays=2)
    live = [environment("a", 1, 1), environment("b", 0, 0), environment("c", 0, 0)]
    with pytest.raises(PoolError, match="of 3, 1 had a mean return above 0.9 and 2 below 0.1"):
        open_source(rooms.config).settle(rooms, Records(pool=list(live)), live)


def test_a_folder_is_validated_once_and_the_rejected_are_named(pool, tmp_path, capsys):
    (tmp_path / "copy.py").write_text(CONTRACT)
    (tmp_path / "copy.hint").write_text("the largest one")
    (tmp_path / "sum.py").write_text(RLVE + CONTROLLER)
    (tmp_path / "guess.py").write_text(GEM)
    (tmp_path / "open.py").write_text(CONTRACT.replace("won = ", "won = 'box' in action or "))
    rooms = make_rooms(pool, source="folder", folder=str(tmp_path), num_envs=2)
    rooms.config.hints.max_words = 2
    records = open_source(rooms.config).begin(rooms)
    printed = capsys.readouterr().out
    assert "1 of 4 environments rejected:\n  open: trivial: " in printed
    hints = {each.name: each.hint for each in records.pool}
    assert hints == {"copy": "the largest", "guess": "", "sum": ""}
    _, live = lesson(rooms, records)
    assert len(live) == 2 and all(each.shareable and each.born == 0 for each in live)
    rooms.config.curriculum.num_envs = 9
    with pytest.raises(PoolError, match="expected at least curriculum.num_envs=9"):
        open_source(rooms.config).begin(rooms)


def test_a_folder_that_is_not_there_is_a_pool_error(tmp_path):
    rooms = make_rooms(source="folder", folder=str(tmp_path / "none"))
    with pytest.raises(PoolError, match="curriculum.folder=.*none: expected a folder"):
        open_source(rooms.config).begin(rooms)


def test_an_adaptive_step_plays_levels_and_learns_from_them():
    rooms = make_rooms(source="adaptive", num_envs=6)
    rooms.config.curriculum.adaptive.attempts = 2
    records = Records(curriculum=CurriculumRecords(graded=seed_environments(0, "games")))
    assert len(records.curriculum.graded) == 16
    records.curriculum.standings = {
        each.name: Standing(level=2) for each in records.curriculum.graded
    }
    _, live = lesson(rooms, records)
    assert [each.name for each in live] == [f"00000-0{slot}" for slot in range(6)]
    assert all(each.hint == "" and f"    N = {2 + each.knob}\n" in each.source for each in live)
    assert {each.knob for each in live} <= {0, 1, 2} and len({each.knob for each in live}) > 1
    for each in live:
        each.windows.append([1.0, 1.0])
    metrics = open_source(rooms.config).settle(rooms, records, live).metrics
    assert metrics["adaptive/accuracy"] == 1.0 and metrics["adaptive/top_level"] == 2
    risen = {name for name, known in records.curriculum.standings.items() if known.level == 3}
    assert risen == {each.family for each in live if each.knob == 2} != set()


def test_without_a_folder_adaptive_plays_the_seed_library_of_its_domain(pool):
    rooms = make_rooms(pool, source="adaptive", domain="tool_use")
    graded = open_source(rooms.config).begin(rooms).curriculum.graded
    domain = DOMAINS["tool_use"]
    assert len(graded) == 2 * len(domain.families)
    assert {each.skill for each in graded} == set(domain.skills)


def test_what_is_replayed_shows_what_was_forgotten():
    rooms = make_rooms(replay_envs=2, archive_size=2)
    archive = [archived("a", 0.8), archived("b", 0.2)]
    records = Records(curriculum=CurriculumRecords(archive=archive))
    again = draw_retired(rooms, records)
    assert [each.name for each in again] == ["b", "a"]  # hardest first
    again[0].windows, again[1].windows = [[0.5, 0.5]], [[0.0, 0.0]]
    again[0].baselines["plain"] = 0.25
    metrics = retire(rooms, records, again, [archived("c", 0.9)])
    assert metrics == {
        "replay/environments": 2, "replay/archive": 2,
        "replay/win_rate": pytest.approx(0.25), "replay/change": pytest.approx(-0.25),
    }  # fmt: skip
    assert {each.name: each.latest for each in records.curriculum.archive} == {"b": 0.5, "c": 0.9}
    assert draw_retired(rooms, records)[0].baselines == {"plain": 0.25}  # it goes on from there


def test_void_plays_say_nothing_and_without_replays_nothing_is_kept():
    rooms = make_rooms(replay_envs=1)
    records = Records(curriculum=CurriculumRecords(archive=[archived("a", 0.8)]))
    (again,) = draw_retired(rooms, records)
    again.windows = [[]]
    assert retire(rooms, records, [again], []) == {"replay/environments": 1, "replay/archive": 1}
    rooms.config.curriculum.replay_envs = 0
    assert retire(rooms, records, [], [archived("b", 0.5)]) == {}
    assert len(records.curriculum.archive) == 1
