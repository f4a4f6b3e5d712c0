"""Checkpoints survive damage, other meshes and full disks, or say what is wrong."""

import contextlib
import dataclasses
import errno
import json
import math
import resource
import shutil
import threading

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from spade_jax import integrity, models, parallel
from spade_jax.checkpoint import CheckpointError, Checkpoints, SaveError, UnreadableError
from spade_jax.rl import Learner, LearnerState, LossSettings, OptimizerSettings
from spade_jax.state import Records, RunState

# A failed save of orbax leaves an event loop that complains when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DAMAGE = {
    "no metadata": lambda folder: (folder / "arrays" / "_METADATA").unlink(),
    "no manifest": lambda folder: (folder / "arrays" / "manifest.ocdbt").unlink(),
    "no array file": lambda folder: array_file(folder).unlink(),
    "cut array file": lambda folder: rewrite(array_file(folder), lambda old: old[: len(old) // 2]),
    "empty array file": lambda folder: rewrite(array_file(folder), lambda old: b""),
    "flipped array bit": lambda folder: rewrite(array_file(folder), flipped),
    "no contents": lambda folder: shutil.rmtree(folder / "contents"),
    "empty contents": lambda folder: rewrite(contents_file(folder), lambda old: b""),
    "cut contents": lambda folder: rewrite(contents_file(folder), lambda old: old[:-9]),
    "changed contents": lambda folder: rewrite(
        contents_file(folder), lambda old: old.replace(b'"[2]"', b'"[7]"')
    ),
    "null contents": lambda folder: rewrite(contents_file(folder), lambda old: b"null"),
    "other version": lambda folder: rewrite(contents_file(folder), lambda old: b'{"step": 2}'),
    "nothing left": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
}  # fmt: skip


def rewrite(path, change):
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]


def array_file(folder):
    files = [file for file in folder.rglob("*") if file.is_file()]
    return max(files, key=lambda file: file.stat().st_size)


def contents_file(folder):
    return folder / "contents" / "metadata"


def state(step, size=200):
    """A state whose arrays and records tell its step."""
    weights = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    params = {"weights": jnp.asarray(weights * step), "bias": jnp.full(3, step, jnp.bfloat16)}
    learner = LearnerState(params, {"count": jnp.int32(step)}, jnp.int32(step))
    return RunState(learner, params, Records(step=step, memory=f"[{step}]"))


def assert_same(found, expected):
    assert found.records == expected.records
    for part in ("learner", "reference"):
        pairs = integrity.named(getattr(found, part)), integrity.named(getattr(expected, part))
        assert pairs[0].keys() == pairs[1].keys()
        for name, leaf in pairs[0].items():
            np.testing.assert_array_equal(leaf, pairs[1][name])


@contextlib.contextmanager
def opened(folder, keep=2, **more):
    with contextlib.closing(Checkpoints(folder, keep, **more)) as checkpoints:
        yield checkpoints


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two") / "checkpoints"
    with opened(folder) as checkpoints:
        checkpoints.save(state(1))
        checkpoints.save(state(2))
    return folder


@pytest.fixture
def folder(two, tmp_path):
    return shutil.copytree(two, tmp_path / "checkpoints")


def test_the_newest_checkpoint_is_restored(folder):
    with opened(folder) as checkpoints:
        assert checkpoints.latest() == 2
        assert_same(checkpoints.restore(state(0)), state(2))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_taken(folder, damage, capsys):
    DAMAGE[damage](folder / "2")
    with opened(folder) as checkpoints:
        assert_same(checkpoints.restore(state(0)), state(1))
        said = " ".join(capsys.readouterr().out.split())
        assert said.startswith("checkpoint 2 in") and "going on from checkpoint 1" in said
        assert checkpoints.latest() == 1 and (folder / "2.damaged").is_dir()
        checkpoints.save(state(2))
    with opened(folder) as checkpoints:
        assert_same(checkpoints.restore(state(0)), state(2))
    assert capsys.readouterr().out == ""


def test_who_only_looks_leaves_the_folder_as_it_is(folder, capsys):
    DAMAGE["cut array file"](folder / "2")
    (folder / "3.orbax-checkpoint-tmp").mkdir()
    before = sorted(folder.rglob("*"))
    with opened(folder, read_only=True) as checkpoints:
        assert_same(checkpoints.restore(state(0)), state(1))
    assert "checkpoint 2" in capsys.readouterr().out
    assert sorted(folder.rglob("*")) == before


def test_with_nothing_readable_the_error_names_all_and_nothing_is_moved(folder):
    DAMAGE["cut contents"](folder / "1")
    DAMAGE["flipped array bit"](folder / "2")
    with opened(folder) as checkpoints:
        with pytest.raises(UnreadableError, match=r"no checkpoint .*\(2: .*; 1: "):
            checkpoints.restore(state(0))
        assert checkpoints.latest() == 2
    assert {"1", "2"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("handler", [ocp.JsonCheckpointHandler, ocp.StandardCheckpointHandler])
def test_a_passing_read_error_is_no_damage(folder, handler, monkeypatch):
    def failing(*_, **__):
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    with opened(folder) as checkpoints:
        with monkeypatch.context() as patch, pytest.raises(OSError, match="not connected"):
            patch.setattr(handler, "restore", failing)
            checkpoints.restore(state(0))
        assert_same(checkpoints.restore(state(0)), state(2))


def test_nor_is_one_that_only_the_array_library_sees(folder):
    file = array_file(folder / "2")
    away = file.rename(folder / "away")
    file.symlink_to(file)  # each open of it fails with ELOOP
    with opened(folder) as checkpoints:
        with pytest.raises(Exception, match="reading array"):
            checkpoints.restore(state(0))
        away.rename(file)
        assert_same(checkpoints.restore(state(0)), state(2))


def test_without_a_checkpoint_there_is_an_error(tmp_path):
    with opened(tmp_path / "none") as checkpoints:
        assert checkpoints.latest() is None
        with pytest.raises(CheckpointError, match="no checkpoint under"):
            checkpoints.restore(state(0))


@pytest.mark.parametrize("change,said", [
    (lambda like: like._replace(version=jnp.float32(0)), "learner/version is int32.. there, exp"),
    (lambda like: like._replace(params={}), "learner/params/bias is bfloat16.3. there, exp"),
])  # fmt: skip
def test_a_checkpoint_of_another_model_is_an_error_and_stays(folder, change, said):
    like = state(0)
    with opened(folder) as checkpoints:
        with pytest.raises(CheckpointError, match=said):
            checkpoints.restore(dataclasses.replace(like, learner=change(like.learner)))
        assert checkpoints.latest() == 2


def test_the_rest_of_a_killed_save_is_no_checkpoint_and_is_removed(folder):
    left = shutil.copytree(folder / "2", folder / "3.orbax-checkpoint-tmp")
    DAMAGE["no array file"](left)
    with opened(folder) as checkpoints:
        assert checkpoints.latest() == 2
        checkpoints.save(state(3))
    with opened(folder) as checkpoints:
        assert_same(checkpoints.restore(state(0)), state(3))
    assert not left.exists()


def test_the_newest_and_the_milestones_are_kept(tmp_path):
    with opened(tmp_path, keep=2, milestones_every=3) as checkpoints:
        for step in range(1, 9):
            checkpoints.save(state(step, size=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "6", "7", "8"]


@contextlib.contextmanager
def full_disk(room):
    """No file can grow beyond `room` bytes, as on a disk without space."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("surfaces", ["check", "save", "close"])
def test_a_save_that_fails_in_the_background_stops_the_run(folder, surfaces):
    checkpoints = Checkpoints(folder, 2)
    with full_disk(room=20_000):
        checkpoints.save(state(3))
        waiter = threading.Thread(target=checkpoints.settle)
        waiter.start()
        waiter.join(timeout=60)
    act = getattr(checkpoints, surfaces)
    with pytest.raises(SaveError, match="could not be written: .*newest complete one is 2"):
        act(state(4)) if surfaces == "save" else act()
    checkpoints.close()
    with opened(folder) as checkpoints:
        assert_same(checkpoints.restore(state(0)), state(2))
        checkpoints.save(state(3))
    with opened(folder) as checkpoints:
        assert checkpoints.latest() == 3


def learner_on(axes):
    mesh = parallel.make_mesh(axes, jax.devices()[: math.prod(axes.values())])
    config = models.preset("tiny", num_layers=2, vocab_size=64, d_model=32, head_dim=8, d_ff=64)
    return Learner(config, mesh, "policy", LossSettings(), OptimizerSettings(1e-3))


@pytest.mark.parametrize("before,after", [
    ({"data": 1}, {"fsdp": 4, "tensor": 2}), ({"fsdp": 4, "tensor": 2}, {"data": 1}),
])  # fmt: skip
def test_a_checkpoint_goes_from_mesh_to_mesh(tmp_path, before, after):
    ours, theirs = learner_on(before), learner_on(after)
    rng = np.random.default_rng(0)
    saved = jax.tree.map(
        lambda leaf: jax.device_put(rng.normal(size=leaf.shape).astype(leaf.dtype), leaf.sharding),
        ours.abstract(),
    )
    with opened(tmp_path) as checkpoints:
        checkpoints.save(RunState(saved, saved.params, Records(step=5)))
    with opened(tmp_path) as checkpoints:
        like = theirs.abstract()
        found = checkpoints.restore(RunState(like, like.params, Records()))
    assert_same(found, RunState(saved, saved.params, Records(step=5)))
    for leaf, sharding in zip(
        jax.tree.leaves(found.learner), jax.tree.leaves(theirs.shardings), strict=True
    ):
        assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)


def test_a_digest_sees_every_bit_and_place_but_not_the_mesh():
    array = np.random.default_rng(0).normal(size=(16, 24)).astype(np.float32)
    (digest,) = digests = {info.digest for info in integrity.inventory([array]).values()}
    bits = array.view(np.uint32)
    for bit in range(32):
        bits[3, 5] ^= np.uint32(1 << bit)
        digests.add(integrity.inventory([array])["0"].digest)
        bits[3, 5] ^= np.uint32(1 << bit)
    for moved in (array[::-1], array[:, ::-1], np.roll(array, 1, axis=1)):
        digests.add(integrity.inventory([moved])["0"].digest)
    assert len(digests) == 1 + 32 + 3
    mesh = parallel.make_mesh({"fsdp": 4, "tensor": 2}, jax.devices())
    spread = jax.device_put(array, parallel.sharding(mesh, "batch", "mlp"))
    assert integrity.inventory([spread])["0"].digest == digest


def test_records_come_back_with_every_float(tmp_path):
    records = Records(step=1, baselines={"a": 1, "b": 0.1 + 0.2}, documents={"state": 2**127 + 1})
    with opened(tmp_path) as checkpoints:
        checkpoints.save(dataclasses.replace(state(1), records=records))
        found = checkpoints.restore(state(0)).records
    assert found == records
    assert json.dumps(found.baselines["b"]) == json.dumps(0.1 + 0.2)
