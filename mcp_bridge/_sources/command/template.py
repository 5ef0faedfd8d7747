"""The template of a command: words with placeholders for parameters. Text in a value never becomes several words.

The settings write a template as a list with parts of three kinds:

    ["grep", "{pattern}", ["-m", "{limit}"], {if: count, add: --count}]

`grep` and the pattern are required words. `-m` and the limit are optional words: they occur if `limit` is given, and
once for each item if it is a list. `--count` is a conditional word: it occurs if `count` is true. If a value is a list,
`{name}` makes a word for each of its items, and `{name:,}` joins the items by commas in one word.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._protocol.wire.values import to_plain_text

_PLACEHOLDER = re.compile(
    r"\{\{(?P<literal>[A-Za-z_][\w-]*)\}\}|\{(?P<name>[A-Za-z_][\w-]*)(?::(?P<separator>[^{}]*))?\}"
)
_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})
_END_OF_OPTIONS = "--"
_DASH_PROBLEM = "the value begins with '-', so the program would read it as an option. Give another value"
MAX_WORDS = 20_000
"""The maximum number of words of a command."""
MAX_CHARACTERS = 8 * 1024 * 1024
"""The maximum number of characters of all words, or of the input. Systems allow less for words (ARG_MAX)."""
_NULL_PROBLEM = "the value contains a null character, which arguments of programs cannot have"
_SURROGATE_PROBLEM = "the value is not valid Unicode, so it cannot be passed to a program"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The value of a parameter. A list is joined by the separator, if there is one."""

    name: str
    separator: str | None = None


Word = tuple[str | Placeholder, ...]
"""The pieces of a word, which are joined without spaces: `--count={n}` is `("--count=", Placeholder("n"))`."""


@dataclass(frozen=True, slots=True)
class RequiredWord:
    """A word of every call."""

    word: Word


@dataclass(frozen=True, slots=True)
class OptionalWords:
    """Words that occur if all of their parameters are given, and once for each item if a value is a list."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class ConditionalWords:
    """Words that occur if the parameter `name` is given and not false; if it is false, `otherwise` occurs."""

    name: str
    words: tuple[Word, ...]
    otherwise: tuple[Word, ...] = ()


Part = RequiredWord | OptionalWords | ConditionalWords


@dataclass(frozen=True, slots=True)
class ArgumentTemplate:
    """The template of a command, in the order of its words."""

    parts: tuple[Part, ...]

    @property
    def program(self) -> str:
        """The first word, which is the program."""
        first = self.parts[0]
        assert isinstance(first, RequiredWord)
        return str(first.word[0])

    @property
    def names(self) -> Set[str]:
        """All parameters of the template, with those of conditions."""
        conditions = {part.name for part in self.parts if isinstance(part, ConditionalWords)}
        return conditions | _list_names(*self.words)

    @property
    def required(self) -> Set[str]:
        """The parameters of required words."""
        return _list_names(*(part.word for part in self.parts if isinstance(part, RequiredWord)))

    @property
    def words(self) -> Sequence[Word]:
        """All words, including optional and conditional ones."""
        return list(chain.from_iterable(map(_list_words, self.parts)))

    @property
    def whole_words(self) -> Set[str]:
        """The parameters whose values are whole words, as in `{name}`, unlike `--option={name}`."""
        return {word[0].name for word in self.words if len(word) == 1 and isinstance(word[0], Placeholder)}

    def find_missing(self, names_with_values: Set[str]) -> Set[str]:
        """Return the parameters of conditional words that may lack a value when the words occur.

        `names_with_values` are the parameters that have a value in each call.
        """
        names: set[str] = set()
        for part in self.parts:
            if isinstance(part, ConditionalWords):
                names |= _list_names(*_list_words(part)) - {part.name}
        return names - names_with_values

    def fill(
        self,
        values: Mapping[str, Any],
        allow_dash: Set[str] = frozenset(),
        listed_options: Mapping[str, Set[str]] = {},
    ) -> list[str]:
        """Return the words of the command.

        Args:
            values: The values of the given parameters.
            allow_dash: The parameters whose values may begin with a dash, and so become options of the program.
            listed_options: For each parameter, the values with a dash that are allowed.

        Raises:
            InvalidArguments: A value cannot be part of a word (a null character), or it would become an option: it is
                the beginning of its word, begins with a dash, and no word `--` precedes it.
        """
        words: list[str] = []
        size = 0
        is_past_options = False
        for word, word_values in self._select_words(values):
            for text in fill_word(word, word_values):
                first = word[0] if word else ""
                if (
                    isinstance(first, Placeholder)
                    and text.startswith("-")
                    and not is_past_options
                    and first.name not in allow_dash
                    and text not in listed_options.get(first.name, ())
                ):
                    raise InvalidArguments([f"$.{first.name}: {_DASH_PROBLEM}"])
                words.append(text)
                size += len(text)
                _check_size(len(words), size, self.names, values)
            if word == (_END_OF_OPTIONS,):
                is_past_options = True
        return words

    def _select_words(self, values: Mapping[str, Any]) -> Iterator[tuple[Word, Mapping[str, Any]]]:
        """Yield the words that occur, each with the values that fill it."""
        for part in self.parts:
            if isinstance(part, RequiredWord):
                yield part.word, values
            elif isinstance(part, OptionalWords):
                for word_values in _expand_lists(part, values):
                    for word in part.words:
                        yield word, word_values
            elif part.name in values:
                words = part.otherwise if values[part.name] is False else part.words
                for word in words:
                    yield word, values


def _expand_lists(part: OptionalWords, values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the values for each repetition of optional words, with one item in place of each list."""
    lists: dict[str, list[Any]] = {}
    for placeholder in _list_placeholders(part.words):
        if placeholder.name not in values:
            return
        if placeholder.separator is None and isinstance(values[placeholder.name], list):
            lists[placeholder.name] = values[placeholder.name]
    for items in product(*lists.values()):
        yield {**values, **dict(zip(lists, items, strict=True))}


def _check_size(count: int, size: int, names: Iterable[str], values: Mapping[str, Any]) -> None:
    """Raise InvalidArguments for too many words or characters. Several lists in a word multiply its repetitions."""
    if count > MAX_WORDS or size > MAX_CHARACTERS:
        lists = ", ".join(sorted(name for name in names if isinstance(values.get(name), list)))
        advice = f"Pass shorter lists: {lists}" if lists else "Pass less text"
        limit = f"{MAX_WORDS} words with {MAX_CHARACTERS} characters"
        raise InvalidArguments([f"$: the command would have more than the limit of {limit}. {advice}"])


def fill_word(word: Word, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of a word, once for each item of a list in it. Raises InvalidArguments."""
    choices = [[piece] if isinstance(piece, str) else _list_texts(piece, values[piece.name]) for piece in word]
    size = 0
    for count, pieces in enumerate(product(*choices), 1):
        text = "".join(pieces)
        size += len(text)
        _check_size(count, size, _list_names(word), values)
        yield text


def _list_texts(placeholder: Placeholder, value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    texts = [_convert_value(placeholder.name, item) for item in items]
    return texts if placeholder.separator is None else [placeholder.separator.join(texts)]


def _convert_value(name: str, value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        # JSON Schema accepts 1.0 as an integer, programs usually do not.
        value = int(value)
    text = value if isinstance(value, str) else to_plain_text(value)
    if "\0" in text:
        raise InvalidArguments([f"$.{name}: {_NULL_PROBLEM}"])
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArguments([f"$.{name}: {_SURROGATE_PROBLEM}"]) from None
    return text


def select_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that count as given: neither null nor an empty list."""
    return {name: value for name, value in values.items() if value is not None and value != []}


def _list_words(part: Part) -> Sequence[Word]:
    if isinstance(part, RequiredWord):
        return (part.word,)
    if isinstance(part, OptionalWords):
        return part.words
    return part.words + part.otherwise


def find_separators(words: Iterable[Word], name: str) -> Set[str]:
    """Return the separators that join the items of the parameter `name` in these words."""
    separators: set[str] = set()
    for placeholder in _list_placeholders(words):
        if placeholder.name == name and placeholder.separator:
            separators.add(placeholder.separator)
    return separators


def _list_placeholders(words: Iterable[Word]) -> list[Placeholder]:
    return [piece for piece in chain.from_iterable(words) if isinstance(piece, Placeholder)]


def _list_names(*words: Word) -> Set[str]:
    return {placeholder.name for placeholder in _list_placeholders(words)}


def parse_word(text: str) -> Word:
    """Parse a word with placeholders: `{name}`, `{name:SEPARATOR}`. `{{name}}` is the text `{name}`."""
    pieces: list[str | Placeholder] = []
    # Texts that follow each other become one piece, so that a word without placeholders is one piece.
    literal = ""
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        literal += text[end : match.start()]
        end = match.end()
        if match["literal"]:
            literal += f"{{{match['literal']}}}"
            continue
        if literal:
            pieces.append(literal)
        literal = ""
        pieces.append(Placeholder(match["name"], match["separator"]))
    literal += text[end:]
    if literal:
        pieces.append(literal)
    return tuple(pieces)


def parse_template(command: Any) -> ArgumentTemplate:
    """Parse a command: text, which is split by the rules of a shell, or a list of parts.

    Raises ValueError with the problem and advice.
    """
    if isinstance(command, str):
        command = _split_text(command)
    if not isinstance(command, list | tuple) or not command:
        raise ValueError("expected the words of a command, as text or as a list")
    if not isinstance(command[0], str) or not command[0] or _PLACEHOLDER.search(command[0]):
        raise ValueError("the first word is the program, which has to be fixed text")
    return ArgumentTemplate(tuple(_parse_part(part) for part in command))


def _split_text(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"the command cannot be split into words: {error}. Write it as a list") from None
    if shell_word := next((word for word in words if word in _SHELL_WORDS), None):
        raise ValueError(
            f"'{shell_word}' needs a shell, and commands run without one. Put it into a script and run that"
        )
    return words


def _parse_part(part: Any) -> Part:
    if isinstance(part, Mapping):
        unknown_keys = sorted(map(str, part.keys() - {"if", "add", "else"}))
        if unknown_keys or not isinstance(part.get("if"), str) or "add" not in part:
            raise ValueError("expected a part such as {if: verbose, add: --verbose}, which may also have `else`")
        return ConditionalWords(part["if"], _parse_words(part["add"]), _parse_words(part.get("else", [])))
    if isinstance(part, list):
        words = _parse_words(part)
        if not any(_list_names(word) for word in words):
            raise ValueError("an optional part, which is a list, needs a placeholder such as {name}")
        return OptionalWords(words)
    (word,) = _parse_words(part)
    return RequiredWord(word)


def _parse_words(words_or_word: Any) -> tuple[Word, ...]:
    words = words_or_word if isinstance(words_or_word, list) else [words_or_word]
    for word in words:
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            problem = f"the words of a command are text, found {word!r}"
            raise ValueError(problem)  # noqa: TRY004 - pydantic collects only ValueError
    return tuple(parse_word(str(word)) for word in words)
