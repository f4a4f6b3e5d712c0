"""python -m spade_jax.aot --config=configs/games_qwen3_8b.py --topology=v5p:4x4x4 [--program=...]

Compiles a recipe's programs for a TPU slice that need not be there, on any x86-64 machine, and
prints one line of JSON for each: memory, collectives, operations. Needs `spade_jax[tpu]`. Programs:
train (the gradient of a micro-batch, and the update), prefill, decode, reshard; default: all.
`--topology=cpu:64` lowers for simulated devices and compiles nothing. Exit status 1: something does
not fit.
"""

import sys

import msgspec
from absl import app, flags
from ml_collections import config_flags

from spade_jax import main as main_lib
from spade_jax.aot.programs import PROGRAMS, Plan
from spade_jax.aot.report import check
from spade_jax.aot.topology import AotError, open_topology, prepare
from spade_jax.config import validate

TOPOLOGY = flags.DEFINE_string("topology", None, "KIND:SIZE, for example v5e:8x8 or cpu:64.")
PROGRAM = flags.DEFINE_multi_enum("program", list(PROGRAMS), list(PROGRAMS), "Which ones.")


def main(argv: list[str]) -> int:
    if len(argv) > 1:
        raise app.UsageError(
            f"unexpected arguments {argv[1:]}; settings are --config.KEY=VALUE", 2
        )
    try:
        return _run()
    except (AotError, *main_lib.USER_ERRORS) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2


def _run() -> int:
    if TOPOLOGY.value is None:
        raise AotError("--topology is missing: expected KIND:SIZE, for example v5e:8x8")
    config = main_lib.read_config()
    validate(config)
    prepare(TOPOLOGY.value)
    plan = Plan.of(config, open_topology(TOPOLOGY.value))
    flag = flags.FLAGS["config"]
    recipe, settings = config_flags.get_config_filename(flag), flag.override_values
    fits = True
    for program in [made for name in PROGRAM.value for made in PROGRAMS[name](plan)]:
        line = check(recipe, settings, plan, program)
        print(msgspec.json.encode(line).decode(), flush=True)
        fits = fits and line.fits is not False
    return 0 if fits else 1


if __name__ == "__main__":
    main_lib.run(main)
