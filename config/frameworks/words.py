"""LangChain tools for config/frameworks.yaml: one that is named, and one that a function makes."""

from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool


@tool
def turn(word: str) -> str:
    """Turn a word around."""
    if not word.isalpha():
        raise ToolException(f"'{word}' is no word.")
    return word[::-1]


def toolbelt() -> list[BaseTool]:
    """Called when the bridge starts."""

    def initials(words: list[str]) -> str:
        """The first letters of words."""
        return "".join(word[:1] for word in words)

    return [StructuredTool.from_function(initials)]
