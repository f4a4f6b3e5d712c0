"""`benchmarks.sampler_gpu` on CPU: every case runs, and the limits are a hand's."""

import json

import jax
import pytest

from benchmarks import sampler_gpu
from benchmarks.sampler_gpu import Case, Sizes
from benchmarks.sampler_roofline import Peaks
from spade_jax import models


@pytest.mark.usefixtures("quick_to_compile")
def test_every_case_of_the_tiny_run_prints_positive_numbers(capsys, tmp_path):
    file = tmp_path / "all.json"
    assert sampler_gpu.main(["--tiny", f"--json={file}"]) == 0
    result, printed = json.loads(file.read_text())["sampler"], capsys.readouterr().out
    sizes = sampler_gpu.tiny_sizes()
    assert list(result["cases"]) == [case.name for case in sizes.cases]
    about = result["about"]
    peaks = Peaks(1e12 * about["tflops"], 1e9 * about["gb_s"], {})
    for case in sizes.cases:
        row = result["cases"][case.name]
        assert f"| {case.name} | " in printed
        free = {"peak_gb", "compiles"}  # CPU has no such count; the engine compiles nothing more
        assert all(value > 0 for key, value in row.items() if key not in free), row
        if case.kind == "engine":
            assert row["compiles"] == 0 and row["slot_use"] <= 1
            continue
        least = sampler_gpu.limit(sizes, case, peaks)
        steps = 1 if case.width else sizes.chunk
        assert row["least_ms"] * steps == pytest.approx(1e3 * least)
        assert row["of_limit"] == pytest.approx(row["least_ms"] / row["ms"])
        assert row["tok_s"] * row["ms"] == pytest.approx(1e3 * case.rows * (case.width or 1))


def hand_sizes() -> Sizes:
    config = models.ModelConfig(
        vocab_size=5, d_model=2, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=2, d_ff=3,
        dtype="bfloat16",
    )  # fmt: skip
    return Sizes(config, (), 0, page=4, chunk=2, cases=[], part=None, settings=None, least=0.0)


def test_a_decode_is_limited_by_the_bytes_of_parameters_and_of_filled_positions():
    # 34 numbers in the block, 10 in the head, 4 in each position; two steps see 9 and 10 positions.
    moved = 2 * (2 * (34 + 10) + 3 * 4 * (9 + 10))
    seconds = sampler_gpu.limit(hand_sizes(), Case("decode", rows=3, past=8), Peaks(1e9, 10.0, {}))
    assert seconds == pytest.approx(moved / 10)


def test_a_prefill_is_limited_by_operations_without_the_head():
    # Two rows of three tokens, which see 5, 6 and 7 positions; one sight costs 4 * head_dim.
    flops = 2 * (2 * 34 * 3 + 8 * (5 + 6 + 7))
    case = Case("prefill", rows=2, past=4, width=3)
    assert sampler_gpu.limit(hand_sizes(), case, Peaks(10.0, 1e9, {})) == pytest.approx(flops / 10)


def test_the_full_run_fits_60_gb_and_reads_the_bytes_of_a_4b_model():
    sizes = sampler_gpu.full_sizes()
    params = 36 * 2560 * (2 * 4096 + 2 * 1024 + 3 * 9728) + 2560 * 151_936
    position = models.cache.position_bytes(sizes.config)
    assert position == 147_456
    one_step = 2 * params + 64 * position * (512 + 16.5)  # half the chunk on average
    seconds = sampler_gpu.limit(sizes, Case("decode", 64, 512), Peaks(1e18, 1e9, {}))
    assert seconds == pytest.approx(32 * one_step / 1e9)
    for case in sizes.cases:
        positions = case.rows * (case.past + 2 * sizes.new(case)) + sizes.pages * sizes.page
        if case.kind == "engine":
            slots = sizes.settings.num_slots * sizes.settings.max_len
            positions = slots * (1 + sizes.settings.streams)
        assert 2 * params + position * positions < 60e9, case


def test_a_case_that_fails_says_why_and_the_others_go_on(capsys, monkeypatch):
    def failing(bench, case):
        if not case.unstack:
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory\nand much more")
        return {"ms": 123.0}

    monkeypatch.setattr(sampler_gpu, "measure_job", failing)
    assert sampler_gpu.main(["--tiny", "--only=decode"]) == 1
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| decode")]
    stacked, unstacked = rows
    assert stacked.endswith("| RuntimeError: RESOURCE_EXHAUSTED: out of memory |")
    assert "| 123 |" in unstacked


def test_cases_do_not_begin_after_the_time_is_over(capsys):
    assert sampler_gpu.main(["--tiny", "--seconds=0"]) == 0
    assert capsys.readouterr().out.count("out of time") == 5


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_one_line(capsys):
    assert sampler_gpu.main([]) == 2
    assert capsys.readouterr().out.count("\n") == 1
