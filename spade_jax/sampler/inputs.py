"""What the programs are told of the rows of a job, as arrays."""

import numpy as np

from spade_jax.sampler.planner import Job
from spade_jax.sampler.programs import DecodeInputs
from spade_jax.sampler.request import MAX_STOP_IDS


def prefill_inputs(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Tokens `[R, C]`, all that is pending but the last, which the decode program reads; and the
    rows' lengths `[R]`."""
    tokens = np.zeros((len(job.rows), job.kind.width), np.int32)
    lengths = np.zeros(len(job.rows), np.int32)
    for place, handle in job.places():
        part = handle.pending[:-1][: job.kind.width]
        tokens[place, : len(part)], lengths[place] = part, handle.row.length
    return tokens, lengths


def decode_inputs(job: Job, context: int) -> DecodeInputs:
    """`context`: positions that a row may have."""
    rows = len(job.rows)
    token, length, budget, noise = (np.zeros(rows, np.int32) for _ in range(4))
    seed, temperature = np.zeros(rows, np.uint32), np.zeros(rows, np.float32)
    top_k, top_p = np.zeros(rows, np.int32), np.ones(rows, np.float32)
    stop = np.full((rows, MAX_STOP_IDS), -1, np.int32)
    for place, handle in job.places():
        request = handle.request
        token[place], length[place] = handle.pending[0], handle.row.length
        budget[place] = handle.room(context)
        noise[place] = handle.row.length + 1 + handle.forgotten
        seed[place], temperature[place] = request.seed, request.temperature
        top_k[place], top_p[place] = request.top_k, request.top_p
        stop[place, : len(request.stop_ids)] = request.stop_ids
    return DecodeInputs(token, length, budget, seed, noise, temperature, top_k, top_p, stop)
