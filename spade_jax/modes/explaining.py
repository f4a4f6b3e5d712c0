"""Says what a recipe is, without running it: `--mode=explain`."""

import dataclasses
import importlib.util
import pathlib
import types
from collections.abc import Iterator
from typing import Any

from ml_collections import ConfigDict
from rich.console import Console
from rich.table import Table

from spade_jax import models, settings
from spade_jax.expected import ASSUMED, Cost, most, step_cost

WORDS = {
    "designs": "designs written, and repairs",
    "environments": "environments that live",
    "plays": "episodes, both arms",
    "questions": "questions to the model itself",
    "sampled": "tokens sampled",
    "read": "tokens read for it",
    "trained": "tokens trained",
    "sampling_flops": "operations of sampling",
    "learning_flops": "operations of the update",
}


def run_explain(config: ConfigDict, path: str) -> int:
    """Prints every setting of a recipe, what differs from the one it starts from, and what a step
    costs. Neither a workdir nor the model's weights are needed.

    Args:
        path: of the recipe's file, as --config has it.
    """
    console = Console(highlight=False, soft_wrap=True)
    recipe = load_recipe(path)
    console.print((recipe.__doc__ or "").strip().split("\n")[0], markup=False)
    console.print()
    for key, value in settings.flat(config).items():
        console.print(f"{key} = {value!r}", markup=False)
    for parent in bases(recipe):
        changed, name = differences(parent.get_config(), config), parent.__name__.replace(".", "/")
        console.print(f"\nwhat differs from {name}.py: {len(changed)} settings")
        for key, (old, new) in changed.items():
            console.print(f"  {key} = {new!r}  (there {old!r})", markup=False)
    console.print()
    console.print(cost_table(config))
    return 0


def load_recipe(path: str) -> types.ModuleType:
    """The module of a recipe's file, whose path may end in `:STRING` as the flag's may."""
    file = pathlib.Path(path if path.endswith(".py") else path.rpartition(":")[0])
    spec = importlib.util.spec_from_file_location("recipe", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bases(recipe: types.ModuleType) -> Iterator[types.ModuleType]:
    """The recipes that this one starts from, nearest first: a recipe imports one of `configs`."""
    while recipe is not None:
        imported = (v for v in vars(recipe).values() if isinstance(v, types.ModuleType))
        recipe = next((v for v in imported if hasattr(v, "get_config")), None)
        if recipe is not None:
            yield recipe


def differences(before: ConfigDict, now: ConfigDict) -> dict[str, tuple[Any, Any]]:
    """Dotted key -> values before and now, where they differ."""
    old, new = settings.flat(before), settings.flat(now)
    keys = [*new, *(key for key in old if key not in new)]
    return {
        key: (old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)
    }


def cost_table(config: ConfigDict) -> Table:
    """What a step costs: at the assumed lengths, and at most."""
    model = models.of_recipe(config)
    expected = step_cost(config, model, ASSUMED)
    bound = step_cost(config, model, most(config))
    table = Table(title="one step, mean over a regeneration epoch", title_justify="left")
    for column in ("", "expected", "at most"):
        table.add_column(column, justify="left" if not column else "right")
    for field in dataclasses.fields(Cost):
        values = (getattr(cost, field.name) for cost in (expected, bound))
        table.add_row(WORDS[field.name], *(f"{value:.4g}" for value in values))
    table.caption = (
        f"expected: an episode fills {ASSUMED.play:.0%} of its context, a design or a repair"
        f" {ASSUMED.design:.0%}, the model writes {ASSUMED.sampled:.0%} of it, an answer takes"
        f" {ASSUMED.answer:.0%} of its limit; {ASSUMED.attempts:g} designs a slot,"
        f" {ASSUMED.repaired:.0%} of the repair turns, {ASSUMED.sound:.0%} of the designs pass the"
        " sandbox. At most: full contexts, every attempt and repair. Not counted: the warm start,"
        " evaluations, the designs of a pool, which are written once, and what a server is asked;"
        " of a folder every environment counts as one with a hint."
    )
    table.caption_justify = "left"
    return table
