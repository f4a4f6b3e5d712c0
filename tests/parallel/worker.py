"""One process of `test_distributed.py`: joins the others, then does what argument 1 says.

    python -m tests.parallel.worker WHAT COORDINATOR INDEX
"""

import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from configs import base
from spade_jax import parallel
from spade_jax.parallel import Hosts


def share(hosts: Hosts) -> None:
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


def fail(hosts: Hosts) -> None:
    """Process 1 fails while process 0 waits for what it has to say."""
    if hosts.index == 1:
        raise ValueError("nothing left")
    hosts.all("wait", None)


def fail_outside(hosts: Hosts) -> None:
    """Process 1 fails while process 0 waits for it in a collective operation."""
    if hosts.index == 1:
        raise ValueError("nothing left")
    multihost_utils.sync_global_devices("wait")


def die(hosts: Hosts) -> None:
    if hosts.index == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    hosts.all("wait", None)


def nothing(hosts: Hosts) -> None:
    pass


def main(what: str, coordinator: str, index: str) -> None:
    section = base.get_config().distributed
    section.enabled, section.coordinator = True, coordinator
    section.num_processes, section.process_id = 2, int(index)
    section.heartbeat_s, section.start_s = 5, 3 if what == "nothing" else 60
    with parallel.joined(section) as hosts:
        globals()[what](hosts)


if __name__ == "__main__":
    main(*sys.argv[1:])
