"""The folder of environments that comes with the baselines is the seed library's."""

import pathlib

from spade_jax.envs.library.__main__ import main


def test_the_pool_is_what_the_library_writes(tmp_path):
    main([f"--pool={tmp_path}", "--designs=32"])
    kept = pathlib.Path("configs/pools/games")
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(written) == 64
    assert {path.name: path.read_text() for path in kept.iterdir()} == written
