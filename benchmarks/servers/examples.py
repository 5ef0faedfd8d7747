"""Tools, a resource and a prompt as users write them, for every server that reads signatures.

Only `add` is synchronous, so that each of the others differs from `add_async` in one respect.
"""

from pydantic import BaseModel, Field

from benchmarks.servers.content import NOTES, NOTES_URI, PNG, REPORT


class Item(BaseModel):
    """One line of an order."""

    sku: str
    amount: int = Field(ge=1)
    price: float


class Order(BaseModel):
    """An order of a customer."""

    customer: str
    items: list[Item]
    note: str | None = None


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_async(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def place_order(order: Order) -> str:
    """Place an order and return the name of the customer."""
    return order.customer


async def write_report(text: str) -> str:
    """Return a long report that begins with the text."""
    return f"{text}\n{REPORT}"


async def read_notes() -> str:
    """Return the notes of today."""
    return NOTES


async def summarize(text: str) -> str:
    """Ask for a summary."""
    return f"Summarize: {text}"


def add_examples(server, context_class, image_class):
    """Add the examples to a server or registry with the decorators `tool`, `resource` and `prompt`."""

    async def greet(text: str, ctx: context_class) -> str:
        """Return the text. The function receives the context of the call."""
        return text

    async def draw_chart() -> image_class:
        """Return an image."""
        return image_class(data=PNG, format="png")

    for function in (add, add_async, place_order, greet, write_report, draw_chart):
        server.tool()(function)
    server.resource(NOTES_URI)(read_notes)
    server.prompt()(summarize)
