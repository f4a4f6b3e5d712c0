"""A recipe's programs from shapes alone: what they are lowered for and what is counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from configs import games_qwen3_4b, games_qwen3_8b, games_qwen3_30b_a3b, tiny
from spade_jax import models, parallel
from spade_jax.aot import AotError, open_topology
from spade_jax.aot.programs import PROGRAMS, Plan, held_bytes
from spade_jax.config import validate
from spade_jax.models.cache import position_bytes

GAMES = (games_qwen3_4b, games_qwen3_8b, games_qwen3_30b_a3b)


def plan(**mesh):
    config = tiny.get_config()
    config.mesh.update({"data": 1, "fsdp": -1, **mesh})
    config.replica.tensor = 2
    return Plan.of(config, open_topology("cpu:8"))


def programs(plan):
    return {program.name: program for make in PROGRAMS.values() for program in make(plan)}


@pytest.mark.parametrize("module", GAMES, ids=lambda module: module.__name__.split(".")[-1])
def test_the_published_recipes_are_valid_and_keep_the_published_settings(module):
    config = module.get_config()
    validate(config)
    assert (config.steps, config.curriculum.num_envs, config.curriculum.regen_interval) == (
        400, 24, 4,
    )  # fmt: skip
    assert (config.agent.top_p, config.agent.top_k) == (0.95, 20)
    assert config.learner.kl == (0.005 if module is games_qwen3_8b else 0.0)
    assert config.designer.max_new_tokens == (20_000 if module is games_qwen3_8b else 16_384)
    assert models.of_recipe(config).vocab_size == 151_936


def test_each_program_is_lowered_for_the_mesh_that_it_runs_on():
    made = programs(plan(tensor=2))
    shapes = {name: dict(program.mesh.shape) for name, program in made.items()}
    learner = {"data": 1, "fsdp": 4, "tensor": 2, "expert": 1}
    replica = {"data": 4, "fsdp": 1, "tensor": 2, "expert": 1}
    assert shapes == {
        "gradients": learner, "apply": learner, "prefill": replica, "decode": replica,
        "reshard": {"replica": 1, **replica},
    }  # fmt: skip
    for program in made.values():
        assert program.lower().as_text()


def test_what_rests_while_a_replica_samples_is_counted():
    one = plan()
    parameters = models.num_params(one.learner.abstract().params)
    made = programs(one)["decode"]
    # Weights and both moments, in fp32 on eight chips; norms, which are small, may be whole.
    assert made.resident["learner"] == pytest.approx(3 * 4 * parameters / 8, rel=0.02)
    assert made.resident["reference"] == pytest.approx(4 * parameters / 8, rel=0.02)
    # 96 slots of 160 positions in pages of 64, so 192, and for each shard a page that is nobody's;
    # four shards, and key-value heads over two chips each.
    positions = (96 * 192 + 4 * 64) * position_bytes(one.model)
    assert made.resident["cache"] == positions // 8


def test_what_rests_while_the_learner_works_is_counted():
    one = plan()
    state, made = one.learner.abstract(), programs(one)
    # The sums of both roles; the gradient that joins one of them is the program's own.
    assert made["gradients"].resident == {
        "optimizer": held_bytes(state.opt_state), "gradient_sums": 2 * held_bytes(state.params),
    }  # fmt: skip
    assert made["apply"].resident == {"reference": held_bytes(one.learner.abstract_reference())}


def test_bytes_on_a_chip_are_those_of_its_shard():
    mesh = parallel.make_mesh({"fsdp": 4, "tensor": 2})
    split = NamedSharding(mesh, PartitionSpec("fsdp", "tensor"))
    leaf = jax.ShapeDtypeStruct((8, 6), jnp.bfloat16, sharding=split)
    assert held_bytes({"a": leaf, "b": None}) == 2 * 3 * 2


@pytest.mark.parametrize(
    "key, value, expected",
    [
        ("learner.agent.rows", 6, "learner.agent.rows=6: expected a multiple"),
        ("sampler.agent.num_slots", 3, "sampler.agent.num_slots=3: expected a multiple"),
        ("sampler.designer.num_slots", 3, "sampler.designer.num_slots=3: expected a multiple"),
    ],
)
def test_what_does_not_fit_the_slice_is_named(key, value, expected):
    config = tiny.get_config()
    config.update_from_flattened_dict({key: value})
    with pytest.raises(AotError, match=expected):
        programs(Plan.of(config, open_topology("cpu:8")))


def test_reshard_gives_every_replica_the_whole_model_in_its_dtype():
    config = tiny.get_config()
    config.mesh.update({"data": 1, "fsdp": -1})
    config.replica.tensor = 2
    config.model.overrides.dtype = "bfloat16"
    one = Plan.of(config, open_topology("cpu:8"))
    params = one.learner.init(jax.random.key(0)).params
    compiled = programs(one)["reshard"].lower().compile()
    moved = compiled(params)
    table = moved["embedding"]
    assert table.dtype == jnp.bfloat16
    np.testing.assert_array_equal(table, params["embedding"].astype(jnp.bfloat16))
    rows = {shard.index[0].start for shard in table.addressable_shards}
    assert rows == {0, 512}  # halves, four copies of each
