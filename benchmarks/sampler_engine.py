"""This project's sampling engine as `benchmarks.sampler_workload` asks for one."""

import jax
import numpy as np

from spade_jax import models, parallel
from spade_jax.sampler import Engine, EngineSettings, Handle, Request

LOGIT_SPREAD = 0.16  # small beside 1: sampling is close to uniform


class SlotEngine:
    """One `Engine` with random weights; an episode that a session names keeps its handle."""

    def __init__(self, shape, max_len: int, batch: int):
        config = models.ModelConfig(
            vocab_size=shape.vocab, d_model=shape.embed_dim, num_layers=shape.num_layers,
            num_heads=shape.num_heads, num_kv_heads=shape.num_kv_heads, head_dim=shape.head_dim,
            d_ff=shape.ffn_dim, rope_theta=1e6, qk_norm=True, tied=False, dtype=shape.dtype,
            remat="none", scan_unroll=shape.num_layers,
        )  # fmt: skip
        params = jax.jit(lambda key: parallel.unbox(models.init(config, key)))(jax.random.key(0))
        params["head"] = LOGIT_SPREAD * params["head"]
        self.num_params = models.num_params(params)
        mesh = parallel.make_mesh({}, jax.devices()[:1])
        settings = EngineSettings(num_slots=batch, max_len=max_len)
        self.engine = Engine(config, mesh, settings)
        self.engine.load(params, 0)
        self.engine.warm_up()
        self._episodes: dict[int, tuple[Handle, list[int]]] = {}  # with all tokens so far

    @property
    def slot_steps(self) -> int:
        return self.engine.stats.slot_steps

    def generate(self, prompts, max_new, stop_ids, seed, session=None) -> list[list[int]]:
        """`session` names the episode of each prompt; an episode that is not named is over.

        Raises:
            ValueError: more episodes than slots, of which each would keep one.
        """
        names = list(session or [])
        if len(names) > self.engine.settings.num_slots:
            raise ValueError(f"{len(names)} episodes, {self.engine.settings.num_slots} slots")
        for name in self._episodes.keys() - set(names):
            self._end(name)
        handles = []
        for index, prompt in enumerate(prompts):
            # Neighbouring seeds must not share requests' seeds, hence the noise.
            own = int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
            request = Request(prompt, max_new, own, 1.0, tuple(stop_ids))
            handles.append(self._begin(request, names[index] if names else None))
        replies = {}
        while len(replies) < len(handles):
            for turn in self.engine.advance():
                replies[turn.handle] = list(turn.tokens)
                if not names:
                    turn.handle.close()
        for name, prompt, handle in zip(names, prompts, handles, strict=False):
            self._episodes[name] = handle, [*prompt, *replies[handle]]
        return [replies[handle] for handle in handles]

    def _begin(self, request: Request, name: int | None) -> Handle:
        """The request's handle: the episode's own if the prompt continues what it holds."""
        if name in self._episodes:
            handle, known = self._episodes[name]
            prompt = list(request.tokens)
            same_stop = handle.request.stop_ids == request.stop_ids
            if same_stop and len(prompt) > len(known) and prompt[: len(known)] == known:
                handle.extend(prompt[len(known) :], request.max_new_tokens)
                return handle
            self._end(name)
        return self.engine.submit(request)

    def _end(self, name: int) -> None:
        self._episodes.pop(name)[0].close()


def make_engine(shape, max_len: int, batch: int) -> SlotEngine:
    return SlotEngine(shape, max_len, batch)
