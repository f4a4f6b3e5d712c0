"""The tool calls in a reply, read by the same parser that environments use."""

from sandbox_runner.tool_calls import CLOSE, OPEN, MalformedCall, ToolCall, parse_tool_calls

__all__ = ["CLOSE", "OPEN", "MalformedCall", "ToolCall", "parse_tool_calls"]
