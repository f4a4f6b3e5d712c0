"""What crosses devices, found in the text of compiled programs."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from spade_jax import parallel
from spade_jax.aot.collectives import Collective, collectives, elements, totals

TPU = """\
HloModule jit_step

%scan.body (p: (s32[], bf16[8,4])) -> (s32[], bf16[8,4]) {
  %ag = bf16[16,4]{1,0:T(8,128)(2,1)} all-gather(%x), channel_id=1, dimensions={0}
  ROOT %out = (s32[], bf16[8,4]) tuple(%i, %x)
}

%scan.condition (p: (s32[], bf16[8,4])) -> pred[] {
  %limit = s32[]{:T(128)} constant(36)
  ROOT %lt = pred[]{:T(512)} compare(%i, %limit), direction=LT, metadata={}
}

%until.body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %cp = (f32[2,8]{1,0}, f32[2,8]{1,0}, u32[], u32[]) collective-permute-start(%x), channel_id=7
  %cp.done = f32[2,8]{1,0} collective-permute-done(%cp)
  ROOT %out = (s32[], f32[4]) tuple(%i, %x)
}

%until.condition (p: (s32[], f32[4])) -> pred[] {
  %limit = s32[] constant(16)
  %lt = pred[] compare(%i, %limit), direction=LT
  ROOT %both = pred[] and(%lt, %any)
}

%taken (p: f32[4]) -> f32[4] {
  ROOT %ar = (f32[3]{0}, bf16[5]{0}) all-reduce(%a, %b), channel_id=2, to_apply=%add
}

%not_taken (p: f32[4]) -> f32[4] {
  ROOT %p = f32[4]{0} parameter(0)
}

%wrapped (p: f32[64]) -> f32[8] {
  ROOT %rs = f32[8]{0} reduce-scatter(f32[64]{0} %p), channel_id=3, dimensions={0}, to_apply=%add
}

ENTRY %main (p: f32[4]) -> f32[4] {
  %scan = (s32[], bf16[8,4]) while(%t), condition=%scan.condition, body=%scan.body
  %until = (s32[], f32[4]) while(%u), condition=%until.condition, body=%until.body
  %if = f32[4] conditional(%c, %p, %p), branch_computations={%not_taken, %taken}
  %fused = f32[8]{0} fusion(%p), kind=kCustom, calls=%wrapped
  ROOT %r = f32[4] copy(%p)
}
"""


def test_each_kind_is_found_with_its_size_and_how_often_it_runs():
    assert sorted(collectives(TPU), key=lambda found: found.kind) == [
        Collective("all-gather", ("bf16[16,4]",), 128, 36),
        Collective("all-reduce", ("f32[3]", "bf16[5]"), 22, 1),
        Collective("collective-permute", ("f32[2,8]",), 64, 1),  # a loop of unknown length
        Collective("reduce-scatter", ("f32[64]",), 256, 1),
    ]


def test_totals_count_repetitions_and_leave_out_what_is_not_there():
    assert totals(collectives(TPU)) == {
        "all-gather": 128 * 36, "all-reduce": 22, "collective-permute": 64, "reduce-scatter": 256,
    }  # fmt: skip
    assert totals([]) == {}


@pytest.mark.parametrize("shape, count", [("f32[]", 1), ("bf16[4,8]", 32), ("s32[7]", 7)])
def test_elements(shape, count):
    assert elements(shape) == count


def test_a_gathered_weight_in_a_scan_is_found_in_a_real_program():
    mesh = parallel.make_mesh({"fsdp": 8})
    split, whole = (NamedSharding(mesh, PartitionSpec(axis)) for axis in ("fsdp", None))

    def layers(weights, x):
        def one(x, weight):
            return x @ jax.lax.with_sharding_constraint(weight, whole), None

        return jax.lax.scan(one, x, weights)[0]

    weights = jax.ShapeDtypeStruct(
        (5, 64, 64), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec(None, "fsdp"))
    )
    x = jax.ShapeDtypeStruct((8, 64), jnp.float32, sharding=split)
    found = collectives(jax.jit(layers).lower(weights, x).compile().as_text())
    gathers = [f for f in found if f.kind == "all-gather"]
    assert sum(gather.bytes * gather.times for gather in gathers) == 5 * 64 * 64 * 4
