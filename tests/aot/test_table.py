"""The tables, from lines whose numbers are easy to follow."""

import dataclasses

import msgspec
import pytest

from spade_jax.aot.chips import CHIPS, GIB
from spade_jax.aot.report import Line, Memory, Moved
from spade_jax.aot.table import Assumptions, estimate, read, seconds, tables

CHIP = CHIPS["v5e"]


def line(program, flops=0.0, arguments=0, chips=64, moved=None, collectives=0, **shapes):
    memory = Memory(arguments, 0, 0, 0, 0, {}, arguments, int(CHIP.hbm))
    return Line(
        recipe="configs/games_qwen3_4b.py", settings={}, topology="v5e:8x8", program=program,
        mesh={"fsdp": 64}, chips=chips, shapes=shapes, fits=arguments <= CHIP.hbm, memory=memory,
        needed=None, flops=flops, intensity=None, largest=None, collectives=collectives,
        moved=moved or {}, offenders=[], seconds=1.0,
    )  # fmt: skip


def test_a_program_takes_as_long_as_its_slower_half():
    half = Assumptions(of_flops=0.5, of_hbm=0.5)
    assert seconds(line("apply", flops=CHIP.flops), half) == pytest.approx(2.0)
    both = line("apply", flops=CHIP.flops, arguments=int(3 * CHIP.hbm_bandwidth))
    assert seconds(both, half) == pytest.approx(6.0)


def test_what_it_moves_comes_on_top_and_a_reduction_is_sent_twice():
    all_ = Assumptions(of_ici=1.0, latency=0.25)
    ici = int(CHIP.ici_bandwidth)
    assert seconds(line("apply", moved={"all-gather": ici}), all_) == pytest.approx(1.0)
    assert seconds(line("apply", moved={"all-reduce": ici}), all_) == pytest.approx(2.0)
    assert seconds(line("apply", collectives=4), all_) == pytest.approx(1.0)


def test_a_step_is_its_micro_batches_its_tokens_and_the_move_of_the_weights():
    assumed = Assumptions(
        plays=64, hinted=0, designs=0, play_tokens=1000, sampled=0.5, filled=1.0, of_flops=1,
        of_hbm=1, of_ici=1, latency=0,
    )  # fmt: skip
    second = CHIP.flops  # of operations
    lines = {
        "gradients": line("gradients", flops=second, rows=16, length=1000),
        "apply": line("apply", flops=second / 2),
        "decode": line("decode", flops=second / 100, chips=4, rows=1, length=1, past=2000),
        "prefill": line("prefill", flops=second, chips=4, rows=2, length=500, past=2000),
        "reshard": line("reshard", moved={"all-gather": int(3 * CHIP.ici_bandwidth)}),
    }
    step = estimate(lines, assumed)
    assert step.update == pytest.approx(4 * 1.0 + 0.5)  # 64 rows, 16 at a time
    # Each of 16 replicas samples 2000 tokens in 4 rows of 500 that are read together.
    assert step.sampling == pytest.approx(2000 / 4 / 100)
    assert step.prefill == pytest.approx(2000 / 1000)
    assert step.reshard == pytest.approx(3.0)
    assert step.total == pytest.approx(4.5 + 5 + 2 + 3)
    # A design fills no row of the plays' micro-batches, and makes one of its own.
    both = dataclasses.replace(assumed, plays=60, designs=1, design_tokens=1000)
    assert estimate(lines, both).update == pytest.approx(5 * 1.0 + 0.5)
    del lines["decode"]
    assert estimate(lines, assumed) is None


def test_the_tables_show_what_does_not_fit_and_what_nobody_explained(tmp_path):
    bad = msgspec.structs.replace(
        line("gradients", arguments=20 * GIB, rows=64, length=32_767),
        offenders=[Moved("all-reduce", ("f32[151936,2560]",), 1, 1, "embedding")],
    )
    path = tmp_path / "lines.jsonl"
    path.write_bytes(msgspec.json.encode(line("gradients")) + b"\n" + msgspec.json.encode(bad))
    text = tables(read([str(path)]))
    assert "**20.0**" in text and "| no |" in text
    assert "f32[151936,2560]" in text and "**unexplained**" in text


def test_lines_of_other_settings_are_a_row_of_their_own(tmp_path):
    one = line("gradients", arguments=GIB)
    other = msgspec.structs.replace(
        line("gradients", arguments=2 * GIB), settings={"mesh.tensor": 4, "mesh.data": 2}
    )
    same = msgspec.structs.replace(
        line("apply", arguments=3 * GIB), settings={"mesh.data": 2, "mesh.tensor": 4}
    )
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n".join(map(msgspec.json.encode, (one, other, same))))
    plain, changed = read([str(path)]).values()
    assert plain == {"gradients": one} and changed == {"gradients": other, "apply": same}
    rows = tables(read([str(path)])).splitlines()
    assert sum("`--config.mesh.data=2` `--config.mesh.tensor=4`" in row for row in rows) == 2
