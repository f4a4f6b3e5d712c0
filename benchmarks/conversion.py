"""python -m benchmarks.conversion: memory that `spade_jax.models.convert` needs, as JSON lines.

Two models of random weights, 1.5 to 1.6 GiB in bf16 and in shards of 400 MB, one dense and one of
experts, go from Hugging Face to orbax, back, and onto a mesh of eight simulated devices, in both
precisions. All figures are MiB. `peak` is the largest resident set of the process above that of the
same process with a tiny model, `beyond` its part that is not the model (on the mesh: that the mesh
does not hold), `leaf` the largest stacked parameter and `tensor` the largest of the checkpoint.
Takes 12 GB of disk, 6 GB of memory and some minutes.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SHAPE = {"d_model": 1024, "num_heads": 16, "d_ff": 3072}
MODELS = {
    "dense": ("qwen3_4b", SHAPE | {"num_kv_heads": 8, "num_layers": 44}),
    "moe": (
        "qwen3_30b_a3b",
        SHAPE | {"num_layers": 12, "num_experts": 32, "d_expert": 512, "vocab_size": 65_536},
    ),
}
TINY = {"d_model": 64, "num_layers": 2, "vocab_size": 512, "d_ff": 64}
MESHES = {"dense": {"fsdp": 4, "tensor": 2}, "moe": {"fsdp": 2, "tensor": 2, "expert": 2}}
SHARD_BYTES = 400 * 10**6
MIB = 2**20


def main() -> None:
    if sys.argv[1:]:
        task, *arguments = sys.argv[1:]
        said = {"write": write, "convert": convert, "load": load}[task](*arguments)
        print(json.dumps(said | {"peak": _peak()}))
        return
    for kind in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            for row in rows(kind, Path(folder)):
                print(json.dumps({"kind": kind, **row}), flush=True)


def rows(kind: str, folder: Path) -> Iterator[dict]:
    sizes = _both("write", folder, kind)
    for dtype, itemsize in (("float32", 4), ("bfloat16", 2)):
        scale = {name: count * itemsize / MIB for name, count in sizes.items() if name != "peak"}
        for what, source, target in (("--to", "hf", "ours"), ("--to-hf", "ours", "back")):
            peak = _both("convert", folder, source, what, f"{target}_{dtype}", dtype)["peak"]
            yield _row(what, dtype, peak, scale["model"], scale)
        loaded = _both("load", folder, kind, dtype)
        yield _row("onto a mesh", dtype, loaded["peak"], loaded["held"], scale)


def _row(what: str, dtype: str, peak: float, needed: float, scale: dict) -> dict:
    found = {"peak": peak, "beyond": peak - needed, **scale}
    return {"what": what, "dtype": dtype, **{name: round(value) for name, value in found.items()}}


def _both(task: str, folder: Path, *arguments: str) -> dict:
    """What the task says of the large model, with the peak above that of the tiny one."""
    said = []
    for size in ("tiny", "large"):
        command = [sys.executable, "-m", "benchmarks.conversion", task, str(folder / size)]
        done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, check=True)
        said.append(json.loads(done.stdout.splitlines()[-1]))
    return said[1] | {"peak": said[1]["peak"] - said[0]["peak"]}


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def write(folder: str, kind: str) -> dict:
    """Makes the checkpoint; says how many values the model, a leaf and a tensor have at most."""
    import jax
    import numpy as np

    from spade_jax import models, parallel
    from spade_jax.models.convert import save_hf
    from spade_jax.models.table import table

    name, changes = MODELS[kind]
    config = models.preset(name, **changes | (TINY if folder.endswith("tiny") else {}))
    params = parallel.unbox(models.init(config, jax.random.key(0)))
    save_hf(config, params, Path(folder) / "hf", dtype="bfloat16", shard_bytes=SHARD_BYTES)
    leaves = [int(np.prod(row.stack + row.shape)) for row in table(config)]
    tensors = [int(np.prod(row.shape)) for row in table(config)]
    return {"model": sum(leaves), "leaf": max(leaves), "tensor": max(tensors)}


def convert(folder: str, source: str, what: str, target: str, dtype: str) -> dict:
    from spade_jax.models import convert

    path = Path(folder) / (source if source == "hf" else f"{source}_{dtype}")
    if convert.main([f"--from={path}", f"{what}={Path(folder) / target}", f"--dtype={dtype}"]):
        sys.exit("the conversion failed")
    return {}


def load(folder: str, kind: str, dtype: str) -> dict:
    """Says how many MiB all devices of the mesh hold together."""
    import jax

    jax.config.update("jax_num_cpu_devices", 8)
    from spade_jax import models, parallel
    from spade_jax.models import convert, hf

    source = convert.open_source(Path(folder) / "hf")
    config, mesh = hf.config_from_hf(source.config), parallel.make_mesh(MESHES[kind])
    boxed = jax.eval_shape(lambda: models.init(config, jax.random.key(0)))
    params = convert.load(source, config, dtype, parallel.tree_shardings(mesh, boxed))
    shards = [s for leaf in jax.tree.leaves(params) for s in leaf.addressable_shards]
    return {"held": sum(shard.data.nbytes for shard in shards) / MIB}


if __name__ == "__main__":
    main()
