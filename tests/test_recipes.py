"""Every recipe loads, and runs an iteration at a laptop's size."""

import pathlib
import runpy

import pytest
from ml_collections import ConfigDict

from configs import sizes
from spade_jax import train
from spade_jax.config import validate
from spade_jax.modes.opening import first_state, open_rooms
from spade_jax.modes import run_warm_start
from spade_jax.modes.opening import Options
from spade_jax.parallel import Hosts
from spade_jax.progress import Progress

CONFIGS = pathlib.Path("configs")
RECIPES = sorted(
    path.as_posix()
    for path in [*CONFIGS.glob("*qwen3*.py"), *CONFIGS.glob("fixed_pool*.py"), *CONFIGS.glob("ablations/*.py")]
    if path.stem != "__init__"
)


def load(path, size=sizes.PUBLISHED):
    return runpy.run_path(path)["get_config"](size)


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """domain -> workdir of a warm start"""
    made = {}
    def get(domain):
        if domain not in made:
            c = load("configs/games_qwen3_4b.py" if domain == "games" else "configs/tool_use_qwen3_4b.py", "tiny")
            c.warm_start.designs, c.warm_start.episodes, c.warm_start.steps = 300, 600, 120
            folder = tmp_path_factory.mktemp(domain)
            assert run_warm_start(c, folder, Options()) == 0
            made[domain] = folder, c.warm_start
        return made[domain]
    return get


@pytest.mark.parametrize("path", RECIPES)
def test_recipe_runs(path, warm, tmp_path):
    import time
    t0 = time.time()
    c = load(path, "tiny")
    folder, section = warm(c.curriculum.domain)
    c.warm_start = section
    with c.unlocked():
        c.warm_start = section.copy_and_resolve_references()
    c.warm_start.path = str(folder)
    c.steps = 1
    c.compilation_cache = str(folder.parent / "cache")
    t1 = time.time()
    with open_rooms(c, tmp_path, Hosts()) as rooms, Progress(1) as progress:
        t2 = time.time()
        from spade_jax.cycle import open_source
        state = first_state(rooms, rooms.language.params())
        state, metrics, designs = train.iteration(rooms, state, progress)
    print(path, "warm", t1 - t0, "open", t2 - t1, "iter", time.time() - t2, {k: v for k, v in metrics.items() if k.startswith("time")}, [d.stage for d in designs])
    print({k: metrics.get(k) for k in ("designer/accepted_fraction", "agent/win_rate", "agent/win_rate_hint", "agent/episodes")})
