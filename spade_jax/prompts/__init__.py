from spade_jax.prompts.templates import PromptError, Prompts, styles

__all__ = ["PromptError", "Prompts", "styles"]
