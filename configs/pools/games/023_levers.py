import random, re
class LeversEnv:
    N = 10
    C = 2
    UP = "blue"
    DOWN = "white"
    NAME = "tower"
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = min(max_turns, 4)
        self.reset()
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn = self.right = 0
        self.at = rng.randint(0, self.N // 2)
        self.goals = [self.at]
        for _ in range(2):
            at, far = self.goals[-1], self.C * rng.randint(1, 2 + self.N // self.C // 2)
            self.goals.append(at - far if at >= far else at + far)
        return f"{self.look()} with {' or '.join(sorted((self.UP, self.DOWN)))}", {}
    def look(self):
        return f"{self.NAME} at {self.at} go {self.goals[self.right % 2 + 1]}"
    def solution(self):
        lines = []
        for at, goal in zip(self.goals, self.goals[1:]):
            size = abs(goal - at) // self.C
            lines.append(f"{self.UP if goal > at else self.DOWN} {size}")
        return "\n".join(lines)
    def step(self, action):
        found = re.search(r"\{(\w+) (\d{1,2})\}", action)
        if found:
            word, size = found.group(1), int(found.group(2))
            size = size * self.C
            self.at += size * ((word == self.UP) - (word == self.DOWN))
            self.at = max(0, min(99, self.at))
        self.right += self.at == self.goals[self.right % 2 + 1]
        self.turn += 1
        if self.right == 2:
            return "done", 1.0, True, False, {}
        return self.look(), 0.0, False, self.turn >= self.max_turns, {}
