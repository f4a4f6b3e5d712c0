"""An environment with a tool, a call of it, and schemas."""

CALL = '<tool_call>{"name": "price", "arguments": {"item": "pen"}}</tool_call>'
SHOP = """
class ShopEnv(ToolUseEnv):
    def reset(self, seed=None):
        self.begin()
        self._tools = {"price": {"description": "of an item", "parameters": {
            "type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}}}
        self._state, self._expected_answer = {"pen": 30 + seed}, str(60 + 2 * seed)
        return "What do two pens cost?", {}
    def tool_price(self, item):
        return {"price": self._state[item]}
"""


def schema(name="f", **fields):
    return {"type": "function", "function": {"name": name} | fields}
