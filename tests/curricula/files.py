"""Small environments in each dialect."""

RLVE = '''
"""Adds numbers."""
from __future__ import annotations

import random
import torch
import torch.backends.cudnn as cudnn
from typing import Dict, List, Optional
from Gym.environment import VerifiableEnvironment


class Sum_Environment(VerifiableEnvironment):
    prompt_template = "Add up: {numbers}"

    def __init__(self, wrong_format=-1.0, wrong_answer=0.0, **kwargs):
        super().__init__(**kwargs)
        torch.manual_seed(0)
        torch.cuda.manual_seed_all(0)
        cudnn.deterministic = True
        self.rewards = (wrong_format, wrong_answer)

    def _generate(self):
        count = self.parameter["count"]
        assert count >= 2
        self.parameter["numbers"] = [random.randint(100, 900) for _ in range(count)]
        self.parameter["reference_answer"] = sum(self.parameter["numbers"])

    def _prompt_generate(self):
        return self.prompt_template.format(numbers=self.parameter["numbers"])

    def _process(self, answer: Optional[str]):
        return int(answer) if answer is not None and answer.strip().isdigit() else None

    def scorer(self, output):
        given = self.processor(output)
        if given is None:
            return self.rewards[0]
        return 1.0 if given == self.parameter["reference_answer"] else self.rewards[1]
'''
CONTROLLER = '''

from Gym.parameter_controller import ParameterController

class Sum_ParameterController(ParameterController):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.count = 2

    def update(self):
        self.count += 3

    def get_parameter_list(self) -> List[Dict]:
        return [dict(count=self.count)]
'''
OWN_BASE = '''
class Double:
    def generator(self, seed, parameter=None):
        self.number = 100 + seed % parameter["top"]
        return True

    def prompt_generator(self):
        return f"Twice {self.number}?"

    def verifier(self, output):
        return 1.0 if output == "\\\\boxed{" + str(2 * self.number) + "}" else 0.0
'''
GEM = '''
import random
from typing import Any, Optional, Tuple

import gem
from gem.core import Env
from gem.utils.constants import TERMINAL_STATE, TextArenaGameReward
from gem.utils.parsing import extract_last_boxed_answer


class GuessGame(Env):
    def __init__(self, complexity: int = 1, max_turns: int = 30, **_):
        super().__init__()
        self.top, self.max_turns = 20 * complexity, max_turns

    def reset(self, seed: Optional[int] = None) -> Tuple[str, dict[str, Any]]:
        super().reset(seed)
        self.number, self.turn = random.randint(1, self.top), 0
        return f"A number from 1 to {self.top}, {self.max_turns} turns.", {"suffix": " Guess!"}

    def step(self, action: str):
        self.turn += 1
        given = extract_last_boxed_answer(action)
        if not given or not given.isdigit() or not given.isascii():
            return TERMINAL_STATE, TextArenaGameReward.format_error_reward, True, False, {}
        if int(given) == self.number:
            return "Yes", TextArenaGameReward.success_reward, True, False, {}
        sign = "lower" if int(given) > self.number else "higher"
        over = self.turn >= self.max_turns
        return sign, TextArenaGameReward.internal_step_reward, False, over, {}
'''
CONTRACT = """
class CopyEnv:
    N = 3
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.numbers, self.turn = [rng.randint(10, 99) for _ in range(self.N)], 0
        return f"say the largest of {self.numbers}", {}
    def solution(self):
        return str(max(self.numbers))
    def step(self, action):
        self.turn += 1
        won = action == "\\\\boxed{" + str(max(self.numbers)) + "}"
        return "ok" if won else "no", float(won), won, self.turn >= self.max_turns, {}
"""
