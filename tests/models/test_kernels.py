"""Every kernel equals the plain code of `models.REFERENCE`, values and gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spade_jax import models, parallel
from spade_jax.models import attention, embedding, kernels, moe, packed

MESHES = [
    {"expert": 4, "fsdp": 2},
    {"data": 2, "tensor": 2, "expert": 2},
    {"data": 2, "fsdp": 2, "tensor": 2},
]
MOE = models.preset(
    "tiny", num_experts=8, experts_per_token=3, d_expert=16, d_model=32, dtype="float32"
)


def assert_close(got, want, atol=2e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=atol), got, want)


def attention_inputs(length, heads=4, kv_heads=2, dim=64):
    """Two rows: three segments and padding behind them, and padding alone at the front."""
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = [(2, length, count, dim) for count in (heads, kv_heads, kv_heads)]
    arrays = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]
    at = np.arange(length) / length
    ids = np.stack([np.where(at < 0.8, 1 + 4 * at, 0), np.where(at < 0.3, 0, 1)]).astype(np.int32)
    assert set(ids[0]) == {0, 1, 2, 3, 4}
    return arrays, jnp.asarray(ids)


def value_and_gradients(attend, arrays, ids):
    """What real tokens get, and the gradients of a loss that sees nothing else."""
    real = (ids > 0)[..., None, None]

    def loss(arrays):
        out = jnp.where(real, attend(*arrays, ids), 0)
        return (jnp.sin(out) * jnp.arange(1, out.shape[-1] + 1)).sum() / out.shape[1], out

    (_, out), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(arrays)
    return out, gradients


@pytest.mark.parametrize("length", [200, 256])
def test_splash_equals_the_reference(length):
    arrays, ids = attention_inputs(length)
    splash = functools.partial(packed.splash, interpret=True)
    got, want = (value_and_gradients(attend, arrays, ids) for attend in (splash, packed.xla))
    assert_close(got, want, 1e-4)


def test_blocks_of_queries_equal_one_block(monkeypatch):
    arrays, ids = attention_inputs(50)
    want = value_and_gradients(packed.xla, arrays, ids)
    monkeypatch.setattr(packed, "QUERIES", 16)
    assert_close(value_and_gradients(packed.xla, arrays, ids), want)


def test_the_mask_for_cudnn_means_the_same(monkeypatch):
    plain = jax.nn.dot_product_attention

    def without_a_gpu(*arrays, implementation, **more):
        assert implementation == "cudnn" and arrays[0].shape[1] % 2 == 0
        return plain(*arrays, implementation="xla", **more)

    monkeypatch.setattr(jax.nn, "dot_product_attention", without_a_gpu)
    arrays, ids = attention_inputs(35)
    got, want = (value_and_gradients(attend, arrays, ids) for attend in (packed.cudnn, packed.xla))
    assert_close(got, want)


def test_blocks_of_queries_over_a_cache_equal_one_block(monkeypatch):
    (q, k, v), _ = attention_inputs(20, dim=8)
    past, recent = (
        {"k": k[:, part].transpose(0, 2, 3, 1), "v": v[:, part].swapaxes(1, 2)}
        for part in (slice(0, 4), slice(4, 20))
    )
    inputs = q[:, 5:], past, recent, jnp.array([4, 2]), 1
    want = attention.attend_cached(*inputs)
    monkeypatch.setattr(attention, "CACHED_QUERIES", 4)
    assert_close(attention.attend_cached(*inputs), want)


@pytest.mark.parametrize("name", ["splash", "gmm"])
def test_kernels_for_tpu_lower_on_any_machine(name):
    if name == "splash":
        arrays, ids = attention_inputs(256)
        function, arguments = packed.splash, (*arrays, ids)
    else:
        arguments = jnp.ones((40, 128)), jnp.ones((4, 128, 256)), jnp.full(4, 10)
        function = moe.gmm
    gradient = jax.grad(lambda *args: function(*args).sum())
    text = jax.jit(gradient).trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()
    assert "tpu_custom_call" in text


def expert_inputs(experts=8):
    keys = jax.random.split(jax.random.key(1), 5)
    x = jax.random.normal(keys[0], (8, 6, 32))
    logits = jax.random.normal(keys[1], (8, 6, experts)).at[..., 5].set(-9.0)  # nobody's choice
    gate, up = (jax.random.normal(key, (experts, 32, 16)) / 6 for key in keys[2:4])
    return x, logits, gate, up, jax.random.normal(keys[4], (experts, 16, 32)) / 4


def experts_and_gradients(compute, arrays):
    route = functools.partial(moe.route, top_k=3, norm_topk=True)

    def loss(arrays):
        x, logits, gate, up, down = arrays
        out = compute(x, logits, route, gate, up, down)
        return jnp.sin(out[0]).sum(), out

    (_, out), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(arrays)
    return out, gradients


@pytest.mark.parametrize("sizes", [{"data": 1}, *MESHES])
def test_experts_on_a_mesh_equal_all_experts_on_all_tokens(sizes):
    mesh = parallel.make_mesh(sizes, jax.devices()[: np.prod(list(sizes.values()))])
    arrays = expert_inputs()
    want = experts_and_gradients(moe.dense, arrays)
    got = experts_and_gradients(models.choose_kernels(MOE, mesh).experts, arrays)
    assert_close(got, want)


def test_the_grouped_product_for_tpu_equals_all_experts_on_all_tokens():
    mesh = parallel.make_mesh({"expert": 2}, jax.devices()[:2])
    arrays = expert_inputs()
    compute = moe.expert_parallel(mesh, functools.partial(moe.gmm, interpret=True))
    want = experts_and_gradients(moe.dense, arrays)
    assert_close(experts_and_gradients(compute, arrays), want)


@pytest.mark.parametrize("outer", [48, 256], ids=["transposed", "as it is"])
def test_the_grouped_product_for_tpu_equals_xla_s_with_either_layout_of_weights(outer):
    keys = jax.random.split(jax.random.key(2))
    rows, weights = (
        jax.random.normal(key, shape)
        for key, shape in zip(keys, [(40, 128), (4, 128, outer)], strict=True)
    )
    sizes = jnp.array([3, 0, 30, 7])

    def run(product):
        loss = lambda *arrays: jnp.sin(product(*arrays, sizes) / 16).mean()  # noqa: E731
        return jax.value_and_grad(loss, argnums=(0, 1))(rows, weights)

    assert_close(run(functools.partial(moe.gmm, interpret=True)), run(jax.lax.ragged_dot))


@pytest.mark.parametrize("sizes", MESHES)
def test_a_lookup_in_shards_is_a_lookup(sizes):
    mesh = parallel.make_mesh(sizes)
    table = jax.random.normal(jax.random.key(0), (64, 8))
    tokens = jax.random.randint(jax.random.key(1), (8, 5), 0, 64)

    def run(lookup):
        loss = lambda table: jnp.sin(lookup(table, tokens, jnp.float32)).sum()  # noqa: E731
        return jax.jit(jax.value_and_grad(loss))(table)

    assert_close(run(embedding.sharded(mesh)), run(embedding.lookup))


@pytest.mark.parametrize(
    "platform,dtype,want",
    [("cpu", "bfloat16", "xla"), ("tpu", "float32", "splash"), ("gpu", "bfloat16", "cudnn"),
     ("gpu", "float32", "xla")],
)  # fmt: skip
def test_the_platform_of_the_mesh_chooses_the_attention(platform, dtype, want):
    config = models.preset("qwen3_4b", dtype=dtype)
    assert kernels._attention(config, platform) is getattr(packed, want)


@pytest.mark.parametrize(
    "overrides,named",
    [
        ({"attention": "flash"}, "attention='flash' must be one of auto, xla"),
        ({"experts": "all"}, "experts='all' must be one of auto, dense"),
        ({"remat": True}, "remat=True must be one of none, full, dots"),
    ],
)
def test_unknown_names_are_refused(overrides, named):
    with pytest.raises(models.ModelError, match=named):
        models.preset("tiny", **overrides)


@pytest.mark.parametrize(
    "overrides,sizes,named",
    [
        ({"attention": "splash"}, {}, "model.attention='splash': expected a tpu, not a cpu"),
        ({"attention": "cudnn"}, {}, "model.attention='cudnn': expected a gpu, not a cpu"),
        ({"experts": "gmm"}, {}, "model.experts='gmm': expected a tpu, not a cpu"),
        ({"num_kv_heads": 2, "num_heads": 4}, {"tensor": 4}, "mesh.tensor=4: .*num_kv_heads=2"),
        ({"num_experts": 6}, {"expert": 4}, "mesh.expert=4: .*num_experts=6"),
    ],
)
def test_what_a_mesh_cannot_do_is_refused_by_name(overrides, sizes, named):
    config = models.preset("tiny", **{"experts_per_token": 2, "d_expert": 16, **overrides})
    mesh = parallel.make_mesh(sizes, jax.devices()[: np.prod([*sizes.values()], dtype=int)])
    with pytest.raises(models.ModelError, match=named):
        models.choose_kernels(config, mesh)


def test_cudnn_is_refused_for_fp32_by_name():
    config = models.preset("qwen3_4b", attention="cudnn", dtype="float32")
    with pytest.raises(models.ModelError, match="bfloat16 or float16 .* not float32 and 128"):
        kernels._attention(config, "gpu")
