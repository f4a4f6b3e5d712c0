import random, re
class BalanceEnv:
    N = 4
    NAME = "dome"
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = min(max_turns, 4)
        self.reset()
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn = self.right = 0
        self.tasks = [self.task(rng) for _ in range(9)]
        return self.tasks[0][0], {}
    def task(self, rng):
        y = rng.randint(1, 2 + self.N // 2)
        x = y + rng.randint(0, 2 + self.N // 2)
        return f"{self.NAME} {x} and {y}", x - y
    def solution(self):
        return "\n".join(str(answer) for _, answer in self.tasks[:2])
    def step(self, action):
        found = re.search(r"\{(\d{1,2})\}", action)
        answer = self.tasks[self.turn % 9][1]
        good = bool(found) and int(found.group(1)) == answer
        self.right += good
        self.turn += 1
        if self.right == 2:
            return "done", 1.0, True, False, {}
        text = "yes" if good else f"no {answer}"
        text = f"{text}, {self.tasks[self.turn % 9][0]}"
        return text, 0.0, False, self.turn >= self.max_turns, {}
