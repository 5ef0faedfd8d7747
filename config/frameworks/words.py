"""LangChain tools for config/frameworks.yaml: a tool, and a function that returns tools."""

from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool


@tool
def turn(word: str) -> str:
    """Reverse a word."""
    if not word.isalpha():
        raise ToolException(f"'{word}' is not a word.")
    return word[::-1]


def toolbelt() -> list[BaseTool]:
    """Return the tools; the bridge calls this when it starts."""

    def initials(words: list[str]) -> str:
        """Return the first letters of the words."""
        return "".join(word[:1] for word in words)

    return [StructuredTool.from_function(initials)]
