"""One process of `test_distributed.py`: joins the others, then does what argument 1 says.

    python -m tests.parallel.worker WHAT COORDINATOR INDEX FOLDER
"""

import contextlib
import os
import pathlib
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from configs import base
from spade_jax import parallel
from spade_jax.checkpoint import Checkpoints
from spade_jax.interrupt import PREEMPTED, StopRequest
from spade_jax.main import exit_code
from spade_jax.parallel import Hosts, distributed
from spade_jax.settings import SettingsError
from spade_jax.state import Records, RunState


def share(hosts: Hosts, folder: pathlib.Path) -> None:
    _move([0, 1, 2, 3])
    _move([3, 0, 2, 1])
    _exchange(hosts)


def _move(order: list[int]) -> None:
    """The learner's mesh spans both processes; each then has everything on its own devices."""
    devices = jax.devices()
    mesh = parallel.make_mesh({"fsdp": 2, "tensor": 2}, [devices[k] for k in order])
    sharding = parallel.sharding(mesh, "embed", "mlp")
    host = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    params = {"kernel": parallel.place(host, sharding)}
    assert not params["kernel"].is_fully_addressable
    np.testing.assert_array_equal(parallel.to_host(params["kernel"]), host)

    def cast(params):
        return {"kernel": params["kernel"].astype(jnp.bfloat16)}

    replicas = parallel.make_replicas({"data": 1, "tensor": 2})
    moved = parallel.ToReplica({"kernel": sharding}, replicas, cast)(params)["kernel"]
    assert moved.is_fully_addressable and moved.addressable_shards[0].data.shape == (8, 2)
    assert set(moved.sharding.device_set) == set(jax.local_devices())
    np.testing.assert_array_equal(moved, host.astype(jnp.bfloat16))


def _exchange(hosts: Hosts) -> None:
    results = hosts.spread("texts", lambda share: [str(k) * 9_000 for k in share], range(7))
    assert results == [str(k) * 9_000 for k in range(7)]
    assert hosts.any(hosts.index == 1) and not hosts.any(False)
    hosts.agree("count", jax.process_count())


def restore(hosts: Hosts, folder: pathlib.Path) -> None:
    """Process 1 cannot read its part of the newest checkpoint."""
    mesh = parallel.make_mesh({"fsdp": 4})
    sharding = parallel.sharding(mesh, "embed")

    def state(step: int) -> RunState:
        array = np.random.default_rng(step).normal(size=(4096, 8)).astype(np.float32)
        return RunState({"w": parallel.place(array, sharding)}, None, Records(step=step))

    with contextlib.closing(Checkpoints(folder, 2, hosts=hosts)) as checkpoints:
        for step in (1, 2):
            checkpoints.save(state(step))
            checkpoints.wait()
        with hosts.leader_first("damage"):
            if hosts.leader:
                for file in (folder / "2" / "arrays" / "ocdbt.process_1" / "d").iterdir():
                    os.truncate(file, 30_000)
        found, expected = checkpoints.restore(state(0)), state(1)
        assert found.records.step == 1
        np.testing.assert_array_equal(
            *(parallel.to_host(each.learner["w"]) for each in (found, expected))
        )


def fail(hosts: Hosts, folder: pathlib.Path) -> None:
    """Process 1 fails while process 0 waits for what it has to say."""
    if hosts.index == 1:
        raise ValueError("nothing left")
    hosts.all("wait", None)


def refuse(hosts: Hosts, folder: pathlib.Path) -> None:
    """Process 1 finds that the settings are impossible."""
    if hosts.index == 1:
        raise SettingsError("made with others")
    hosts.all("wait", None)


def preempt_0(hosts: Hosts, folder: pathlib.Path) -> None:
    _preempt(hosts, 0)


def preempt_1(hosts: Hosts, folder: pathlib.Path) -> None:
    _preempt(hosts, 1)


def _preempt(hosts: Hosts, victim: int) -> None:
    """One process is told to stop in a long step, where the other one waits for it."""
    with StopRequest(
        0.1, hosts.any, before_drop=lambda: hosts.desert("was preempted", PREEMPTED)
    ):
        if hosts.index == victim:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        hosts.all("wait", None)


def preempt_outside(hosts: Hosts, folder: pathlib.Path) -> None:
    """As `preempt_1`, but the other one waits in code that no exception can reach."""
    if hosts.index == 0:
        time.sleep(60)
    _preempt(hosts, 1)


def fail_outside(hosts: Hosts, folder: pathlib.Path) -> None:
    """Process 1 fails while process 0 waits for it in a collective operation."""
    if hosts.index == 1:
        raise ValueError("nothing left")
    multihost_utils.sync_global_devices("wait")


def die(hosts: Hosts, folder: pathlib.Path) -> None:
    if hosts.index == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    hosts.all("wait", None)


def nothing(hosts: Hosts, folder: pathlib.Path) -> None:
    pass


def main(what: str, coordinator: str, index: str, folder: str) -> None:
    section = base.get_config().distributed
    distributed.GRACE = 1.0
    section.enabled, section.coordinator = True, coordinator
    section.num_processes, section.process_id = 2, int(index)
    section.heartbeat_s, section.start_s = 5, 3 if what == "nothing" else 60
    with parallel.joined(section, exit_code) as hosts:
        globals()[what](hosts, pathlib.Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
