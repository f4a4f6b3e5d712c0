"""python -m spade_jax.aot from outside."""

import importlib.util
import json
import subprocess
import sys

import pytest


def run(*arguments):
    command = [sys.executable, "-m", "spade_jax.aot", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_recipe_is_lowered_for_64_simulated_devices():
    done = run(
        "--config=configs/games_qwen3_4b.py", "--topology=cpu:64", "--program=train",
        "--program=decode", "--config.replica.tensor=8", "--config.sampler.agent.cache_gib=64.0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    gradients, apply, decode = map(json.loads, done.stdout.splitlines())
    assert [gradients["program"], apply["program"], decode["program"]] == [
        "gradients", "apply", "decode",
    ]  # fmt: skip
    assert gradients["mesh"] == {"fsdp": 32, "tensor": 2}
    assert gradients["shapes"] == {"rows": 32, "length": 32_767}
    assert gradients["settings"] == {"replica.tensor": 8, "sampler.agent.cache_gib": 64.0}
    assert decode["mesh"] == {"data": 8, "tensor": 8} and decode["chips"] == 64
    assert decode["fits"] is None  # nothing was compiled


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--topology=v9:8x8"], "--topology=v9:8x8: expected KIND:SIZE"),
        ([], "--topology is missing"),
        (["--topology=cpu:64", "--config.steps=0"], "steps=0: expected at least 1"),
        (["--topology=cpu:64", "--config.mesh.fsdp=16"], "needs 32 devices"),
        (["--topology=cpu:64"], "sampler.designer.num_slots=8: expected a multiple"),
        (
            ["--topology=cpu:64", "--program=decode", "--config.replica.tensor=8"],
            "cache_gib=16.0: expected at least",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, expected):
    done = run("--config=configs/games_qwen3_4b.py", *arguments)
    assert done.returncode == 2 and not done.stdout
    assert expected in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="libtpu is not installed: pip install 'spade_jax[tpu]'",
)
def test_decode_compiles_for_a_v5e_slice_and_fits():
    done = run("--config=configs/games_qwen3_4b.py", "--topology=v5e:8x8", "--program=decode")
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert line["fits"] is True
    assert 0 < line["memory"]["total"] <= line["memory"]["limit"] < 16 * 2**30
    assert line["moved"]["all-reduce"] > 0  # tensor parallel
    assert line["offenders"] == []
