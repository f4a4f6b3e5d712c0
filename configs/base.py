"""Every setting of a run, with the published values where there are any. Recipes change copies.

A recipe is one file that calls `base.get_config()` and changes the lines that differ. Unknown keys
are errors. Values are checked before anything expensive starts: by `spade_jax/config.py` one by
one, by `spade_jax/relations.py` together.
"""

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder


def get_config() -> ConfigDict:
    c = ConfigDict()
    c.seed = 0
    c.steps = 400  # iterations, each with one optimizer step
    c.compilation_cache = ""  # folder of compiled programs; empty: WORKDIR/compilation_cache
    c.prompts = "compact"  # folder under spade_jax/prompts: "compact", "chat", "full"

    c.model = ConfigDict()
    c.model.preset = "tiny"  # spade_jax/models/config.py: PRESETS
    c.model.overrides = ConfigDict(convert_dict=False)  # fields of ModelConfig
    c.model.attention = "auto"  # by the mesh's platform; or "xla", "splash" (TPU), "cudnn" (GPU)
    c.model.experts = "auto"  # likewise; or "dense", "ragged", "gmm" (TPU)
    c.model.checkpoint = ""  # a public model instead of a new one: see spade_jax/pretrained.py
    c.model.cache = "~/.cache/spade_jax"  # where converted ones are kept

    c.mesh = ConfigDict()  # devices along each axis; one may be -1: what is left
    c.mesh.data = -1
    c.mesh.fsdp = 1
    c.mesh.tensor = 1
    c.mesh.expert = 1

    c.replica = ConfigDict()  # devices that one process samples on, as c.mesh: its own ones
    c.replica.data = -1
    c.replica.fsdp = 1
    c.replica.tensor = 1
    c.replica.expert = 1
    c.replica.processes = 1  # that share a replica; more than one is still to come

    c.distributed = ConfigDict()  # several processes, all started with the same command
    c.distributed.enabled = False
    c.distributed.coordinator = ""  # HOST:PORT of process 0; empty: as the cluster says, e.g. GKE
    c.distributed.num_processes = -1  # -1: as the cluster says
    c.distributed.process_id = -1
    c.distributed.start_s = 300  # seconds to find each other
    c.distributed.timeout_s = 3600.0  # seconds that one may wait for the slowest, all its plays
    c.distributed.heartbeat_s = 15  # without a sign of life for so long, a process is dead

    c.text = ConfigDict()
    c.text.chat = "tiny"  # template; with model.checkpoint one of spade_jax/pretrained.py: CHATS
    c.text.vocab_size = 1024  # of the sentencepiece model trained on the warm-start rows

    c.warm_start = ConfigDict()  # supervised stage before self-play
    # "library" (spade_jax/envs/library), "jsonl:PATH" (spade_jax/warm_start/jsonl_rows.py)
    c.warm_start.sources = ("library",)
    c.warm_start.path = ""  # a finished run's workdir: take its warm start instead of training one
    c.warm_start.designs = 8000  # of the library: rows of the designer
    c.warm_start.episodes = 48_000  # of the library: expert episodes
    c.warm_start.steps = 2500  # 0: self-play starts from the model as it is
    c.warm_start.tokens = 65_536  # positions of a batch; rows are as long as learner.ROLE.length
    c.warm_start.designer_every = 5  # every fifth batch is the designer's
    c.warm_start.context_weight = 0.2  # loss of tokens that are read, relative to written ones
    c.warm_start.learning_rate = 3e-3
    c.warm_start.matrix_rate = 0.01  # of Muon, for the blocks' matrices; 0: AdamW for everything
    c.warm_start.save_every = 250  # steps
    c.warm_start.mixture = ConfigDict()  # spade_jax/envs/library/mixture.py: Mixture
    c.warm_start.mixture.easiest = 3.0  # the difficulty is easiest + Exp(spread)
    c.warm_start.mixture.spread = 2.5
    c.warm_start.mixture.hard_tail = 0.04  # share of designs with a difficulty from 10 to 50
    c.warm_start.mixture.generic_documents = 0.25
    c.warm_start.mixture.no_document = 0.05
    c.warm_start.mixture.vague_hints = 0.25
    c.warm_start.mixture.memory = 0.5  # share of designs that are shown an example
    c.warm_start.mixture.memory_spread = 0.35  # its difficulty times e^N(0, spread)
    c.warm_start.mixture.hinted_episodes = 0.5
    c.warm_start.mixture.noise_with_hint = 0.02  # chance of a careless action at a turn
    c.warm_start.mixture.noise_without_hint = 0.04

    c.grounding = ConfigDict()
    c.grounding.enabled = True  # ABLATION: False designs without documents
    # "bundled", "bundled:tool_use", "machine", "jsonl:PATH", "tfds:NAME:SPLIT[:FIELD]"
    c.grounding.sources = ("bundled",)
    c.grounding.weights = (1.0,)
    c.grounding.max_words = 6000

    c.memory = ConfigDict()
    c.memory.enabled = True  # ABLATION: False designs without examples
    c.memory.size = 200
    c.memory.positives = 2
    c.memory.negatives = 1
    c.memory.use = 1.0  # share of designs that see memory
    c.memory.snippet = 2000  # characters
    c.memory.recent = 0  # > 0: choose among the newest records of the skill only
    c.memory.band = (0.15, 0.85)  # win rates of a positive example
    c.memory.too_easy = 0.9  # a negative example wins more than this
    c.memory.too_hard = 0.1  # or less than this
    c.memory.duplicate = 0.9  # similarity from which a record replaces an older one; 2: never
    c.memory.top = 0  # > 0: draw from that many best by regret instead of max(3n, 10)

    c.curriculum = ConfigDict()
    c.curriculum.skills = (
        "mathematical reasoning",
        "logical deduction",
        "spatial reasoning",
        "pattern recognition",
        "optimization",
        "causal inference",
    )
    c.curriculum.skills_per_regen = 3
    c.curriculum.num_envs = 24  # design slots
    c.curriculum.max_attempts = 5  # designs tried per slot
    c.curriculum.regen_interval = 4  # steps that an environment lives
    c.curriculum.fixed_pool = 0  # > 0: that many designs, written at step 0 and never renewed
    c.curriculum.domain = "games"  # or "tool_use": of prompts and of spade_jax/envs/library
    # True: a design is asked to be harder or easier, by the win rate of the skill's newest records
    # in memory, which has to be enabled, against designer.plateau_low and plateau_high
    c.curriculum.difficulty_hints = False
    # where live environments come from, spade_jax/cycle/sources.py: "designer"; "pool", as
    # fixed_pool > 0 alone; "folder", written in advance; "adaptive", of adjustable difficulty
    c.curriculum.source = "designer"
    c.curriculum.folder = ""  # *.py of the last two; for "adaptive" empty: the seed library
    c.curriculum.lifecycle = False  # True: "pool" and "folder" drop what teaches nothing
    c.curriculum.lifecycle_band = (0.1, 0.9)  # mean returns of an environment that stays
    c.curriculum.lifecycle_plays = 32  # at least, before an environment is judged (again)
    c.curriculum.replay_envs = 0  # retired environments that each step plays again
    c.curriculum.archive_size = 200  # retired environments kept for that, of all difficulties
    c.curriculum.adaptive = ConfigDict()  # spade_jax/curricula/controllers.py
    c.curriculum.adaptive.controller = "sliding_window"  # or "learning_potential"
    c.curriculum.adaptive.success = 1.0  # return from which a play has succeeded
    c.curriculum.adaptive.width = 4  # sliding window: levels that are played, the top ones
    c.curriculum.adaptive.attempts = 128  # plays at the top level before it is judged: tau_num
    c.curriculum.adaptive.promote = 0.9  # share of them that must succeed
    c.curriculum.adaptive.levels = 8  # learning potential: that are played, the first ones
    c.curriculum.adaptive.fast = 0.35  # weight of a new accuracy in its two averages
    c.curriculum.adaptive.slow = 0.15
    c.curriculum.adaptive.greedy = 0.5  # share of picks by potential; the others are random

    c.designer = ConfigDict()
    c.designer.train = True  # False: frozen designer, its tokens carry no loss
    c.designer.reward = "blend"  # spade_jax/rl/rewards.py: REWARDS
    c.designer.delay = 4  # steps of plays before a design is trained; at most regen_interval
    c.designer.temperature = 0.6
    c.designer.top_k = 0  # likeliest tokens that are sampled from; 0: all. See old_logprobs below
    c.designer.top_p = 1.0  # their least probability together; 1: all
    c.designer.max_new_tokens = 16_384
    c.designer.weight = 1.0  # of the role's loss
    c.designer.role_scale = True  # times min(max_scale, agent plays / designs * interval)
    c.designer.max_scale = 50.0
    c.designer.baseline = "batch"  # or "moving"
    c.designer.baseline_decay = 0.8
    c.designer.negative_scale = 1.0  # factor on negative advantages
    c.designer.train_invalid = False  # train rejected designs with the next two rewards
    c.designer.invalid_reward = -0.2
    c.designer.off_skill_reward = 0.0
    c.designer.degenerate_reward = 0.0  # one blind action sequence wins it
    c.designer.fault_reward = -0.5  # it failed during play
    c.designer.replay_seeds = 4  # other seeds on which a winning action sequence is replayed
    c.designer.repeat_cost = 0.0  # times the share of recent records with its family and knob
    c.designer.check_skill = False  # reject designs that are not of the skill asked for
    # least structural similarity that counts; 0.25 knows a source with 5% of its tokens changed
    c.designer.skill_similarity = 0.25
    c.designer.w_reg = 0.4
    c.designer.s_reg = 0.15
    c.designer.regret_floor = True
    c.designer.w_plat = 0.6
    c.designer.plateau_low = 0.4
    c.designer.plateau_high = 0.6
    c.designer.plateau_ramp = 0.25
    c.designer.w_lp = 0.0
    c.designer.s_lp = 0.10
    c.designer.w_front = 0.0
    c.designer.s_front = 0.08
    c.designer.thinking = placeholder(bool)  # None: as text.chat has it; or True, False
    # regret at the weights of the regeneration step; False: over the window, as published
    c.designer.matched_timing = True
    c.designer.average_fast = 0.98  # weights of the new value in the skills' moving averages
    c.designer.average_slow = 0.85  # the one that learning_potential compares with
    c.designer.guards = ("replay",)  # spade_jax/designer/guards.py: GUARDS
    c.designer.guesses = 3  # different action sequences that a guard replays, each on replay_seeds
    c.designer.coverage_bonus = 0.0  # times the share of recent records of another kind
    # times that a rejected design is shown why and may be mended; only its first answer is trained,
    # as the rejected one that it is: see train_invalid and invalid_reward
    c.designer.repair_turns = 0
    c.designer.self_judge = False  # after play the model says whether its environment works
    c.designer.self_judge_cost = 0.5  # off the reward where it says no
    c.designer.self_judge_tokens = 1024  # most of that answer, which is greedy

    c.agent = ConfigDict()
    c.agent.plays_per_env = 16
    c.agent.hint_plays_per_env = 16
    c.agent.seeds_per_env = 1  # divides both numbers of plays
    c.agent.train_hint_arm = False  # True: plays with the hint are trained too
    c.agent.group = "environment"  # advantage group; or "seed": (environment, seed)
    c.agent.baseline = "group"  # its mean; or "moving": the environment's moving average
    c.agent.baseline_decay = 0.5  # weight of the old value in that, which begins with a mean
    c.agent.normalise = True  # divide by the group's std; never with a moving baseline
    c.agent.temperature = 0.6
    c.agent.top_k = 0  # as the designer's; scores of `eval` are without
    c.agent.top_p = 1.0
    c.agent.max_new_tokens = 8192
    c.agent.max_turns = 25
    c.agent.weight = 1.0
    c.agent.thinking = placeholder(bool)  # None: as text.chat has it; or True, False
    c.agent.hint_style = "append"  # to the first observation; or "prepend", or a message: "system"
    c.agent.mask_malformed = False  # True: malformed replies of tool use carry no loss
    c.agent.format_bonus = 0.0  # added to a trained return of well-formed actions, else taken off

    c.sampler = ConfigDict()
    c.sampler.warm_up = True  # compile all programs before the first step, not when first needed
    for role, slots, length in (("designer", 32, 32_768), ("agent", 128, 32_768)):
        c.sampler[role] = ConfigDict()
        c.sampler[role].num_slots = slots  # episodes open at a time
        c.sampler[role].max_len = length
        c.sampler[role].page = 512  # positions of one page of the cache; rows grow by pages
        c.sampler[role].cache_gib = 32.0  # at most, on the whole mesh; beyond it rows wait or are
        # parked in the host's memory. 0: the whole context for every slot
        c.sampler[role].prefill_tokens = 2048  # positions of one prefill dispatch
        c.sampler[role].prefill_chunks = (64, 512)  # lengths of its rows
        c.sampler[role].decode_rows = 0  # most of one decode dispatch; 0: as slots. On CPU 8 or 16
        c.sampler[role].decode_chunk = 16  # most tokens of one decode dispatch
        c.sampler[role].past_tokens = 131_072  # most cached positions that one dispatch reads, so
        # that rows of 8k go 16 at a time. Each stream holds a copy of them. 0: any number
        c.sampler[role].streams = 2  # dispatches on their way at a time

    c.learner = ConfigDict()
    for role, rows, length in (("designer", 8, 32_767), ("agent", 8, 32_767)):
        c.learner[role] = ConfigDict()
        c.learner[role].rows = rows  # of a micro-batch
        c.learner[role].length = length  # positions of a row; at least the role's context - 1
    c.learner.aggregation = "trajectory"  # mean over episodes of their mean, or "token"
    c.learner.normalise = "joint"  # one such mean over both roles; "role": one mean each
    # True: no loss on plays cut off by a limit, which still count in their group's baseline
    c.learner.mask_truncated = False
    c.learner.clip_low = 0.2
    c.learner.clip_high = 0.28
    # "recomputed" or "sampled". With top_k or top_p on, the log-probs of sampling are those of the
    # truncated policy, the learner's of the whole one. "recomputed" makes up for it: the importance
    # weight then has the probability that truncation kept, at most 1, as a factor. "sampled" does
    # not: its ratios start there, below 1, where clip_low stops negative advantages. Either way
    # logprob_gap shows the truncation too.
    c.learner.old_logprobs = "recomputed"
    c.learner.importance_cap = 2.0
    c.learner.kl = 0.0
    c.learner.entropy = 0.0
    c.learner.learning_rate = 1e-6
    c.learner.b1 = 0.9
    c.learner.b2 = 0.98
    c.learner.weight_decay = 0.1
    c.learner.grad_clip = 1.0
    c.learner.warmup_steps = 0
    c.learner.drop_zero_variance = False  # True: groups of equal returns do not count in the mean

    c.sandbox = ConfigDict()
    c.sandbox.call_cpu = 1.0  # seconds of CPU per reset, step or solution
    c.sandbox.memory_mib = 256
    c.sandbox.total_mib = 0  # memory of all environments together; 0: half of the machine's
    c.sandbox.max_children = 512
    c.sandbox.packages = ()  # that environments may import, besides numpy and math_verify
    c.sandbox.allow_missing = ()  # layers that this host may lack: sandbox_runner doctor

    c.eval = ConfigDict()
    c.eval.every = 0  # steps; besides before the first and after the last
    c.eval.episodes = 8  # per environment at temperature 1; 0: none
    c.eval.greedy = 2  # per environment, greedy; 0: none
    c.eval.max_turns = 12

    c.checkpoint = ConfigDict()
    c.checkpoint.every = 10  # steps
    c.checkpoint.keep = 2  # newest ones
    c.checkpoint.milestones_every = 0  # steps; theirs are kept for ever. 0: none
    c.checkpoint.grace_s = 25.0  # after SIGTERM a longer step is dropped; clouds kill after 30

    c.wandb = ConfigDict()  # Weights & Biases, besides metrics.jsonl and TensorBoard
    c.wandb.project = ""  # empty: off
    c.wandb.entity = ""  # user or team; empty: the account's own
    c.wandb.name = ""  # of the run; empty: the workdir's
    c.wandb.mode = "online"  # or "offline": kept in WORKDIR/wandb, for `wandb sync`
    c.wandb.tags = ()

    c.hints = ConfigDict()
    c.hints.source = "inline"  # with the source; "self": the model, shown the source; "external"
    c.hints.temperature = 0.3  # of "self" and "external", as the following two
    c.hints.max_new_tokens = 4096
    c.hints.max_words = 100  # a longer hint is cut, whoever wrote it
    c.hints.leak_check = False  # compares hints with the reference solutions
    c.hints.leak_seeds = 8
    c.hints.leak_share = 0.5  # a hint leaks that holds the whole answer of that share of the seeds
    c.hints.on_leak = "reject"  # the design; "drop": it is played without a hint

    c.audit = ConfigDict()  # a model is asked whether an environment can be solved as written
    c.audit.enabled = False
    c.audit.source = "external"  # or "self"
    c.audit.unknown = "accept"  # what becomes of a design without a verdict; or "reject"
    c.audit.temperature = 0.0
    c.audit.max_new_tokens = 4096

    c.yardstick = ConfigDict()  # the server's model plays every new environment; trains nothing
    c.yardstick.enabled = False  # not for curriculum.source="adaptive", where all are always new
    c.yardstick.plays = 4  # per environment
    c.yardstick.temperature = 0.6
    c.yardstick.max_new_tokens = 8192  # of a reply

    c.remote = ConfigDict()  # a server that speaks chat completions, for whatever is "external"
    c.remote.base_url = ""  # for example http://host:8000/v1; empty: none
    c.remote.model = ""  # as the server calls it
    c.remote.key_variable = ""  # NAME of the environment variable with the API key; empty: no key
    c.remote.timeout_s = 120.0  # that the server may be silent
    c.remote.deadline_s = 600.0  # of one question, with its retries and the waits between them
    c.remote.retries = 4
    c.remote.max_concurrency = 16  # questions under way at a time, of one process
    c.remote.breaker_failures = 8  # failed questions in a row that open the breaker
    c.remote.breaker_s = 60.0  # that the server is then left alone
    # What a request says; spade_jax/remote/client.py: FIELDS. Not every server takes every field.
    c.remote.fields = ("max_tokens", "temperature", "top_p", "seed")
    c.remote.price_prompt = 0.0  # of a million tokens, for the metric remote/cost
    c.remote.price_completion = 0.0
    return c
