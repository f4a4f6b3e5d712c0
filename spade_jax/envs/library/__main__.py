"""Write warm-start rows: `python -m spade_jax.envs.library --out=DIR --seed=0`.

`DIR/designs.jsonl` holds {family, skill, knob, document, source, hint, memory or null} and
`DIR/episodes.jsonl` {family, skill, knob, with_hint, hint, turns: [[observation, action], ...],
return}. The files depend on the arguments alone. `--corpus=FILE` writes the bundled grounding
corpus instead, `--pool=DIR` a folder of `--designs` environments with their hints, for
`curriculum.folder`; tests hold both against what is in the repository.
"""

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from spade_jax.envs.library.documents import bundled
from spade_jax.envs.library.family import SeedEnvironment
from spade_jax.envs.library.generate import design_record, designs, episodes
from spade_jax.envs.library.mixture import Mixture
from spade_jax.envs.library.registry import DOMAINS


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m spade_jax.envs.library",
        description="Write designs.jsonl and episodes.jsonl for the warm start.",
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", type=pathlib.Path, help="folder of the rows, made if missing")
    target.add_argument("--corpus", type=pathlib.Path, help="write the bundled corpus and stop")
    target.add_argument("--pool", type=pathlib.Path, help="write a folder of environments and stop")
    parser.add_argument("--domain", choices=DOMAINS, default="games")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--designs", type=int, default=4000)
    parser.add_argument("--episodes", type=int, default=30000)
    for field in dataclasses.fields(Mixture):
        if field.name != "hard_range":
            flag = "--" + field.name.replace("_", "-")
            parser.add_argument(flag, type=float, help=f"default: {field.default}")
    return parser.parse_args(argv)


def _write(path: pathlib.Path, records: Iterable[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def _write_pool(folder: pathlib.Path, environments: Iterable[SeedEnvironment]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, env in enumerate(environments):
        path = folder / f"{number:03d}_{env.family}.py"
        path.write_text(env.source + "\n", "utf-8")
        record = {"skill": env.skill, "hint": env.hint}
        path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Write both files of the arguments' mix, the corpus or a pool."""
    arguments = _arguments(argv)
    domain = DOMAINS[arguments.domain]
    if arguments.corpus is not None:
        _write(arguments.corpus, bundled(domain.cues))
        return
    chosen = vars(arguments)
    overrides = {
        field.name: chosen[field.name]
        for field in dataclasses.fields(Mixture)
        if chosen.get(field.name) is not None
    }
    settings = Mixture(**overrides)
    design_rng, episode_rng = np.random.default_rng(arguments.seed).spawn(2)
    pairs = list(designs(arguments.designs, design_rng, settings, domain))
    if arguments.pool is not None:
        _write_pool(arguments.pool, [env for env, _ in pairs])
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    _write(arguments.out / "designs.jsonl", (design_record(*pair) for pair in pairs))
    played = episodes([env for env, _ in pairs], arguments.episodes, episode_rng, settings)
    _write(arguments.out / "episodes.jsonl", played)


if __name__ == "__main__":
    main()
