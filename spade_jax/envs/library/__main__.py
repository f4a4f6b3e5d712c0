"""Write warm-start rows: `python -m spade_jax.envs.library --out=DIR --seed=0`.

`DIR/designs.jsonl` holds {family, skill, knob, document, source, hint, memory or null} and
`DIR/episodes.jsonl` {family, skill, knob, with_hint, hint, turns: [[observation, action], ...],
return}. The files depend on the arguments alone.
"""

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Sequence

import numpy as np

from spade_jax.envs.library.generate import design_record, designs, episodes
from spade_jax.envs.library.mixture import POLISH, Mixture


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m spade_jax.envs.library",
        description="Write designs.jsonl and episodes.jsonl for the warm start.",
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder, made if missing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--designs", type=int, default=4000)
    parser.add_argument("--episodes", type=int, default=30000)
    parser.add_argument("--stage", choices=("main", "polish"), default="main")
    for field in dataclasses.fields(Mixture):
        if field.name != "hard_range":
            flag = "--" + field.name.replace("_", "-")
            parser.add_argument(flag, type=float, help="overrides the stage's setting")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Write both files of the arguments' mix."""
    arguments = _arguments(argv)
    chosen = vars(arguments)
    overrides = {
        field.name: chosen[field.name]
        for field in dataclasses.fields(Mixture)
        if chosen.get(field.name) is not None
    }
    stage = POLISH if arguments.stage == "polish" else Mixture()
    settings = dataclasses.replace(stage, **overrides)
    design_rng, episode_rng = np.random.default_rng(arguments.seed).spawn(2)
    pairs = list(designs(arguments.designs, design_rng, settings))
    played = episodes([env for env, _ in pairs], arguments.episodes, episode_rng, settings)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with open(arguments.out / "designs.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(design_record(*pair)) + "\n" for pair in pairs)
    with open(arguments.out / "episodes.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in played)


if __name__ == "__main__":
    main()
