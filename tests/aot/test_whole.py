"""Which collectives are held against the sharding."""

import pytest

from spade_jax import models
from spade_jax.aot.collectives import Collective
from spade_jax.aot.whole import reason, whole

QWEN = models.preset("qwen3_4b")
EXPERTS = models.preset("qwen3_30b_a3b")


def moved(shape, kind="all-gather"):
    return Collective(kind, (shape,), 1, 1)


@pytest.mark.parametrize(
    "model, shape, what",
    [
        (QWEN, "f32[151936,2560]", "embedding"),
        (QWEN, "f32[1024,151936,4]", "more than an embedding"),
        (QWEN, "bf16[1,9728,2560]", "mlp.down or mlp.gate or mlp.up"),
        (QWEN, "bf16[2560,32,128]", "attention.out or attention.q"),
        (QWEN, "bf16[4864,2560]", ""),  # half of one
        (QWEN, "bf16[1,32768,2560]", ""),  # activations
        (QWEN, "bf16[2,512,2560]", ""),  # as many elements as attention.k has
        (QWEN, "bf16[2560,4096]", "attention.out or attention.q"),
        (EXPERTS, "bf16[128,2048,768]", "mlp.down or mlp.gate or mlp.up"),
        (EXPERTS, "bf16[16,2048,768]", ""),
    ],
)
def test_whole_weights_are_known_by_their_size(model, shape, what):
    assert whole(model, moved(shape)) == what


def test_one_whole_array_among_several_is_enough():
    some = Collective("all-reduce", ("bf16[8]", "bf16[2560,8,128]"), 1, 36)
    assert whole(QWEN, some) == "attention.k or attention.v"


def test_what_has_no_shape_is_nothing_whole():
    assert whole(QWEN, Collective("reduce-scatter", (), 0, 1)) == ""


def test_only_fsdp_alone_is_a_reason_and_only_to_gather_and_scatter():
    alone, with_tensor = {"fsdp": 64, "tensor": 1}, {"fsdp": 32, "tensor": 2}
    assert reason(alone, moved("f32[8]")) and reason(alone, moved("f32[8]", "reduce-scatter"))
    assert reason(alone, moved("f32[8]", "all-reduce")) == ""
    assert reason(with_tensor, moved("f32[8]")) == ""
    assert reason({"replica": 16, "tensor": 4}, moved("f32[8]"))
