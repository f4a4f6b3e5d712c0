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

ENTRY %main (p: f32[4]) -> f32[4] {
  %scan = (s32[], bf16[8,4]) while(%t), condition=%scan.condition, body=%scan.body
  %until = (s32[], f32[4]) while(%u), condition=%until.condition, body=%until.body
  %if = f32[4] conditional(%c, %p, %p), branch_computations={%not_taken, %taken}
  ROOT %r = f32[4] copy(%p)
}
"""


def test_each_kind_is_found_with_its_size_and_how_often_it_runs():
    assert sorted(collectives(TPU), key=lambda found: found.kind) == [
        Collective("all-gather", ("bf16[16,4]",), 128, 36),
        Collective("all-reduce", ("f32[3]", "bf16[5]"), 22, 1),
        Collective("collective-permute", ("f32[2,8]",), 64, 1),  # a loop of unknown length
    ]


# From programs that libtpu compiled for v5e:8x8, shortened.
SCATTERED = """\
%all-reduce-scatter.clone.1 (input.2: bf16[2560,512]) -> bf16[80,512] {
  %input.2 = bf16[2560,512]{1,0:T(8,128)(2,1)S(1)} parameter(0)
  %all-reduce.10 = bf16[2560,512]{1,0:T(8,128)(2,1)} all-reduce(%input.2), channel_id=6, \
replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=%add.2.clone
  %multiply.2 = u32[]{:T(128)} multiply(%bitcast.102, %constant.190)
  ROOT %dynamic-slice.69 = bf16[80,512]{1,0:T(8,128)(2,1)S(1)} dynamic-slice(%all-reduce.10)
}

ENTRY %main.0_spmd (param.1: bf16[2560,1024]) -> bf16[80,1024] {
  %param.1 = bf16[2560,1024]{1,0:T(8,128)(2,1)} parameter(0), sharding={replicated}
  %fusion.72 = bf16[80,512]{1,0:T(8,128)(2,1)S(1)} fusion(%fusion.71), kind=kCustom, \
calls=%all-reduce-scatter.clone.1
  ROOT %reduce_scatter.7 = bf16[80,1024]{1,0:T(8,128)(2,1)} reduce-scatter(%param.1), \
channel_id=1, replica_groups=[2,32]<=[32,2]T(1,0), dimensions={0}, to_apply=%region_0.0
}
"""


def test_what_is_scattered_has_the_size_of_the_operand_which_the_text_gives_elsewhere():
    assert sorted(collectives(SCATTERED), key=lambda found: found.bytes) == [
        Collective("reduce-scatter", ("bf16[2560,512]",), 2560 * 512 * 2, 1),
        Collective("reduce-scatter", ("bf16[2560,1024]",), 2560 * 1024 * 2, 1),
    ]


# Likewise, of the gradient of Qwen3-4B: a product in windows, and what a shard_map sends.
WINDOWED = """\
%wide.windowed_dot_general_body_ag (p: (bf16[16,128,1,80], u32[])) -> (bf16[16,128,1,80], u32[]) {
  %collective-permute.3 = bf16[16,128,1,80]{1,3,2,0:T(8,128)(2,1)} collective-permute(%copy), \
channel_id=166, source_target_pairs={{0,2},{2,4}}, metadata={op_name="q/dot_general"}
  %one = bf16[2560,512]{1,0} fusion(%p), kind=kCustom, calls=%async_collective_fusion.958
}

%wide.windowed_dot_general_cond_ag (p: (bf16[16,128,1,80], u32[])) -> pred[] {
  %constant.2904 = u32[]{:T(128)} constant(16), metadata={op_name="q/dot_general"}
  %get-tuple-element.3047 = u32[]{:T(128)} get-tuple-element(%wide.param.146), index=4
  ROOT %compare.132 = pred[]{:T(512)} compare(%get-tuple-element.3047, %constant.2904), \
direction=LT, metadata={op_name="q/dot_general"}
}

%async_collective_fusion.958 (p: bf16[80,512]) -> bf16[2560,512] {
  %all-gather.112 = bf16[2560,512]{1,0} all-gather(%p), channel_id=91, \
dimensions={0}, metadata={op_name="v/dot_general"}
}

%fused_computation.841 (p: bf16[80,512]) -> bf16[2560,512] {
  %all-gather.128 = bf16[2560,512]{1,0} all-gather(%p), channel_id=91, \
dimensions={0}, metadata={op_name="v/dot_general"}
}

ENTRY %main.63_spmd (p: bf16[80,512]) -> bf16[2560,512] {
  %while.216 = (bf16[16,128,1,80], u32[]) while(%tuple), \
condition=%wide.windowed_dot_general_cond_ag, body=%wide.windowed_dot_general_body_ag
  %two = bf16[2560,512]{1,0} fusion(%p), kind=kCustom, calls=%fused_computation.841
  %psum.84 = bf16[32,32767,80]{1,0,2} all-reduce(%x), channel_id=1, \
metadata={op_name="embed/shard_map/psum" stack_frame_id=551}
  %psum.85 = bf16[32,32767,80]{1,0,2} all-reduce(%y), channel_id=1, \
metadata={op_name="embed/shard_map/psum" stack_frame_id=555}
  %all_to_all.20 = bf16[32,32767,80]{1,0,2} all-to-all(%psum.84), channel_id=1, \
metadata={op_name="embed/shard_map/all_to_all"}
}
"""


def test_windows_are_counted_parts_are_one_and_a_shared_channel_hides_nothing():
    assert sorted(collectives(WINDOWED), key=lambda found: found.kind) == [
        Collective("all-gather", ("bf16[2560,512]",), 2560 * 512 * 2, 1),
        Collective("all-reduce", ("bf16[32,32767,80]",), 32 * 32767 * 80 * 2, 1),
        Collective("all-reduce", ("bf16[32,32767,80]",), 32 * 32767 * 80 * 2, 1),
        Collective("all-to-all", ("bf16[32,32767,80]",), 32 * 32767 * 80 * 2, 1),
        Collective("collective-permute", ("bf16[16,128,1,80]",), 16 * 128 * 80 * 2, 16),
    ]


def test_totals_count_repetitions_and_leave_out_what_is_not_there():
    assert totals(collectives(TPU)) == {
        "all-gather": 128 * 36, "all-reduce": 22, "collective-permute": 64,
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


def test_a_scattered_array_is_found_in_a_real_program():
    mesh = parallel.make_mesh({"fsdp": 8})
    scatter = jax.shard_map(
        lambda x: jax.lax.psum_scatter(x, "fsdp", scatter_dimension=0, tiled=True),
        mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec("fsdp"), check_vma=False,
    )  # fmt: skip
    compiled = jax.jit(scatter).lower(jax.ShapeDtypeStruct((64, 4), jnp.float32)).compile()
    assert collectives(compiled.as_text()) == [
        Collective("reduce-scatter", ("f32[64,4]",), 64 * 4 * 4, 1)
    ]
