"""Parses the help text of programs, in the forms of GNU, BSD, argparse, clap, cobra, curl, git, openssl and others.

A help text describes the same parameters twice, and incompletely. The usage, `cp [-r] SOURCE... DEST`, has the
arguments in order, and shows which are required or repeated. The table below it, `-r, --recursive  copy folders`, has
the options with their descriptions. So the text is read in three steps:

1. `find_usage` finds the lines of the usage. They begin with `usage:`, or only with the name of the program.
2. `_parse_table` reads the options, by all their names. Descriptions may continue on more indented lines.
3. `_parse_groups` reads the usage group by group (`[-r]`, `SOURCE...`, `DEST`), and completes the options of the table.

A text without parameters is an error, because a tool without parameters would be useless. If a program such as `git`
needs a subcommand, the error lists the commands.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mcp_bridge._cli.drafting.draft import DraftCommand, DraftParameter, render_example
from mcp_bridge._contracts.errors import ConfigError

_OPTION_LINE = re.compile(r"^ {0,10}(-\S.*)$")
_COLUMN = re.compile(r"(?<=\S)\s{2,}(?=-\w{1,2}\s{2,}\S)")
"""The space before the second of two options in a line."""
_OPTION = re.compile(
    r"(?P<flag>-\w(?![\w-])|-[a-z][\w-]+(?=[\s=<\[]|:\s|$)|--(?P<no>\[no-?\])?\w(?:[\w.-]*\w)?)(?P<rest>.*)", re.DOTALL
)
"""The name of an option, and the rest, which may be its value. `no` marks `--[no-]name`."""
_SEPARATORS = re.compile(r",\s+|\s+/\s+|\s+or\s+(?=--)|\s*\|\s*(?=-)|\s+(?=--\w)|,$")
"""What is between the names of one option."""
_DESCRIPTION = re.compile(
    r"\s+:\s+|\s{2,}(?=\S)(?!--\w[\w-]*(?:[=\[,]|\s\s|\s[A-Z<]|$))|(?<=>)\s+(?=[A-Za-z])|(?<=\w:)\s+(?=\S)"
)
"""What is between an option and its description."""
_CHOICES = re.compile(r"^[\[({<]?([\w.+-]+(?:\s?[,|]\s?[\w.+-]+)+)[\])}>]?$")
"""Possible values, such as `{json,yaml}` or `json|yaml`."""
_POSSIBLE = re.compile(r"\[possible values: ([^\]]+)\]")
_INTEGERS = re.compile(
    r"(num|number|n|u?int\d*|integer|count|lines|seconds|port|size|depth|width|max-\w+|\d+)", re.IGNORECASE
)
_NUMBERS = re.compile(r"float\d*|decimal", re.IGNORECASE)
_PATHS = re.compile(r"((in|out)?files?|filename|paths?|dir|directory|folder|pathspec)", re.IGNORECASE)
_LISTS = re.compile(r"(.*[_ ])?(files|paths|args|arguments)", re.IGNORECASE)
_LIST_TYPES = frozenset({"list", "strings", "stringArray", "stringSlice", "ints"})
"""Types of repeatable options in the help of Go programs."""
_VALUE = re.compile(r"<[^>]+>|[A-Z][A-Z0-9_.-]*|[a-z]")
"""A placeholder for one value, such as `<file>`, `FILE` or `n`."""
_FEW_OPTIONS = 4
"""With more lines of options, most of them must be in a known form."""
_USELESS_OPTION = re.compile(r"--?((help|version)(-.*)?|[hV?])")
"""Options that a model does not need."""
_PLACEHOLDER = re.compile(r"-[A-Z]{3}")
"""A placeholder in the name of an option, as in `--no-OPTION`."""
_GENERAL = re.compile(r"options?(?![a-z])|opts\b|flags|switches", re.IGNORECASE)
"""A placeholder for all options in a usage, such as `[OPTIONS]`."""
_GENERAL_OPTION = re.compile(r"-(-\w+[_-])?(options?|opts|flags|switches)\b")
"""A placeholder for all options in a usage that looks like an option, such as `-options`."""
_COMMAND = re.compile(r"[<\[{(]*(sub)?commands?[>\]})]*", re.IGNORECASE)
_COMMANDS_HEADING = re.compile(
    r"^(?!\s*-)(\s{0,2}\S.*\bcommands\b.*:|(\S.*\s)?(sub)?commands(\s\(.*\))?:?|positional arguments:?)\s*$",
    re.IGNORECASE,
)
"""The heading of a list of commands."""
_COMMAND_LINE = re.compile(r"^ {1,8}([a-z][\w-]*|--?\w[\w|-]*)(?= {2,}| - |,| [\[<A-Z]|$)")
"""A line with one command."""
_COMMAND_COLUMNS = re.compile(r"^\s*[a-z][\w-]*((,\s*|\s{2,})[a-z][\w-]*)+,?\s*$")
"""A line with several commands, without descriptions."""
_NO_DESCRIPTION = re.compile(
    r"copyright|try |license|web site|.*warranty|mandatory arguments|"
    r"(\S+\s+){1,3}v?\d+(\.\d+)+(\s*\(.*|,?\s+(of|protocol|by)\s.*)?$",
    re.IGNORECASE,
)
"""Lines before a description, such as the version."""
_USAGE_HEADING = re.compile(r"^(\s*(usage|syntax):|.*\.\s+usage:\s*$)\s*", re.IGNORECASE)
_INDENTED_OPTION = re.compile(r"^ {1,10}-\S")
_CONTINUATION = re.compile(r"^ {5,}(?!.*\b([a-z]{2,} ){3})\S|^ +[\[<({|]")
"""A further line of a usage: deeply indented, but not a sentence, or with a bracket first."""
_FORMATTING = re.compile(r".\x08|\x1b\[[\d;]*m")
"""Bold text of manuals, which prints a character twice, and colours of terminals."""


def parse_help(text: str, has_failed: bool, words: Sequence[str]) -> DraftCommand:
    """Draft a command from its help text.

    Args:
        text: The output of the program.
        has_failed: Whether it is the output of an error. Then a message about the error precedes the usage.
        words: The program and its subcommand.

    Raises:
        ConfigError: The program needs the name of a subcommand, or the text does not describe its parameters.
    """
    text = _FORMATTING.sub("", text).expandtabs()
    lines: list[str] = []
    for line in text.splitlines():
        lines += _split_columns(line)
    usage = find_usage(lines, words)
    if has_failed:
        if usage.is_given:
            lines = lines[usage.start :]
        else:
            lines = [line for line in lines if _OPTION_LINE.match(line)]
        usage = find_usage(lines, words)
    table = _parse_table(lines)
    arguments, options = _parse_groups(split_groups(usage.text), table, lines, words)
    parameters = [*options, *arguments]
    _check_draft(usage, table, parameters, lines, words)
    return DraftCommand(words=words, description=_find_description(lines, usage), parameters=parameters)


def _split_columns(line: str) -> list[str]:
    """Split a line with two options and their descriptions, such as `-f  force     -q  quiet`."""
    if not _OPTION_LINE.match(line):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    first, *columns = _COLUMN.split(line)
    return [first, *(f"{indent}{column}" for column in columns)]


@dataclass(frozen=True, slots=True)
class _OptionTable:
    """The options of a text by each of their names. The value is None for an option that is useless for a model.

    `count` is the number of lines with options, and `understood` the number of those in a known form.
    """

    options: dict[str, DraftParameter | None]
    count: int
    understood: int


def _parse_table(lines: Sequence[str]) -> _OptionTable:
    """Parse the options. A description may follow on more indented lines."""
    options: dict[str, DraftParameter | None] = {}
    count = 0
    understood = 0
    for number, line in enumerate(lines):
        match = _OPTION_LINE.match(line)
        if match is None:
            continue
        count += 1
        spec, *texts = _DESCRIPTION.split(match[1], maxsplit=1)
        texts += _find_continuation(line, lines[number + 1 :], bool(texts))
        option = _parse_option(spec, re.sub(r"^[-:]\s+", "", " ".join(texts)))
        flags = re.findall(r"(?<![\w-])--?\w[\w-]*", spec)
        if option is not None or any(map(_USELESS_OPTION.fullmatch, flags)):
            understood += 1
        if option is not None:
            if option.option in options:
                continue
            options[option.option] = option
        for flag in flags:
            options.setdefault(flag, option)
    return _OptionTable(options, count, understood)


def _find_continuation(line: str, following: Sequence[str], has_description: bool) -> Iterator[str]:
    """Yield the further lines of the description of an option."""
    indent = len(line) - len(line.lstrip())
    for next_line in following:
        if not next_line.strip():
            if has_description:
                return
            continue
        if len(next_line) - len(next_line.lstrip()) <= indent + 1 or _OPTION_LINE.match(next_line):
            return
        has_description = True
        yield next_line.strip()


def _parse_option(spec: str, description: str) -> DraftParameter | None:
    """Parse `-n, --number=NUM` and its variants.

    Return None for any other text, and for an option that is useless for a model.
    """
    matches = [match for match in map(_OPTION.match, _SEPARATORS.split(spec.strip())) if match is not None]
    if not matches:
        return None
    # The long name is the main one.
    main = next((match for match in matches if match["flag"].startswith("--")), matches[0])
    flag = re.sub(r"\[no-?\]", "", main["flag"])
    if any(_USELESS_OPTION.fullmatch(match["flag"]) for match in matches) or _PLACEHOLDER.search(flag):
        return None
    # The value may follow any of the names: `-n NUM, --number` or `-n, --number NUM`.
    value_text = next((match["rest"] for match in (main, *matches) if match["rest"].strip()), "")
    value = re.sub(r"^\[?=", "", value_text.strip()).strip(" ,")
    if re.search(r"(^|\s)(-\w|or\s)", value):
        # Several options share one line, and the end of each is unclear.
        return None
    option = DraftParameter(name=flag.lstrip("-"), option=flag, description=description)
    if not value or value in ("]", "false:", "true:") or (value == ":" and main["no"]):
        negation = ""
        if main["no"]:
            negation = main["flag"].replace("[", "").replace("]", "")
        elif value.endswith(":"):
            negation = f"{flag}=false"
        elif any(match["flag"] == f"--no-{option.name}" for match in matches):
            negation = f"--no-{option.name}"
        return replace(option, type="boolean", negation=negation)
    possible_values = _POSSIBLE.search(description)
    choices = _parse_choices(value)
    if possible_values is not None:
        choices = possible_values[1].split(", ")
    groups = split_groups(value) or [value]
    takes_several = ("..." in value and " " in value) or (len(groups) > 1 and all(map(_VALUE.fullmatch, groups)))
    # `--number=NUM` and `-nNUM` are one word, `--number NUM` and `-n NUM` are two.
    joint = None
    if "=" in value_text.strip()[:2]:
        joint = "=" if len(flag) > 2 else ""
    elif value_text[:1] in ("[", "<") and len(flag) == 2 and main["flag"] == flag:
        joint = ""
    return replace(
        option,
        type=_guess_type(value),
        choices=choices,
        is_list=takes_several or groups[0] in _LIST_TYPES,
        takes_several=takes_several,
        joint=joint,
    )


def _parse_choices(value: str) -> list[str]:
    match = _CHOICES.match(value)
    if match is None:
        return []
    return re.split(r"\s?[,|]\s?", match[1])


def _guess_type(value: str) -> str:
    """Guess the type of a value by the first word of its placeholder, such as `NUM` or `FILE`."""
    name = re.sub(r"[^\w-]+", "", value.split(" ", maxsplit=1)[0])
    for pattern, type_name in ((_INTEGERS, "integer"), (_NUMBERS, "number"), (_PATHS, "path")):
        if pattern.fullmatch(name):
            return type_name
    return "string"


def _parse_groups(
    groups: Sequence[str], table: _OptionTable, lines: Sequence[str], words: Sequence[str]
) -> tuple[list[DraftParameter], list[DraftParameter]]:
    """Return the arguments and the options. The usage may have options that the table lacks.

    Raises ConfigError for the name of a subcommand as an argument.
    """
    arguments: dict[str, DraftParameter] = {}
    options = {option.option: option for option in table.options.values() if option is not None}
    usage_options: dict[str, DraftParameter] = {}
    follows_dashes = False
    pending = [*groups]
    while pending:
        group = pending.pop(0)
        is_list = "..." in group
        is_optional = group.startswith("[")
        # The group without its brackets, and without a placeholder for options in it.
        inner = re.sub(r"(?<=.)\[[^\[\]]*(options?|flags)\]\s*", "", group, flags=re.IGNORECASE)
        inner = inner.replace("...", "").strip("[](){} " if "-" in inner[:3] else "[] ")
        if inner.startswith("--]") or inner.startswith("-- ") or inner == "--":
            follows_dashes = True
            inner = inner[2:].strip("[] ")
        if inner.startswith("-"):
            # A required option is not in brackets, so its value is the next group.
            if not is_optional and "=" not in inner and " " not in inner and pending and pending[0][0] not in "[-":
                inner = f"{inner} {pending.pop(0)}"
            for usage_option in _parse_usage_options(inner):
                option = table.options.get(usage_option.option, usage_option)
                if option is None:
                    continue
                if option.type == "boolean" and usage_option.type != "boolean":
                    # The option has a value, which only the usage shows.
                    joint = usage_option.joint if option.option == usage_option.option else None
                    option = replace(option, type=usage_option.type, choices=usage_option.choices, joint=joint)
                option = replace(
                    option,
                    is_required=not is_optional and " | " not in inner,
                    is_list=option.is_list or (is_list and usage_option.type != "boolean"),
                )
                target = options if usage_option.option in table.options else usage_options
                target[option.option] = option
            continue
        if not inner or _GENERAL.search(inner):
            continue
        _check_subcommand(inner, lines, words)
        name = re.sub(r"[^\w-]+", " ", inner.split(" [")[0]).strip()
        if not name:
            continue
        is_required = not is_optional
        if name in arguments:
            # An argument that is repeated, as in `FILE [FILE]`, is a list.
            is_list = True
            is_required = arguments[name].is_required
        arguments[name] = DraftParameter(
            name=name,
            type=_guess_type(name),
            choices=_parse_choices(inner),
            description=_find_argument_text(name, lines),
            is_list=is_list or _LISTS.fullmatch(name) is not None,
            is_required=is_required,
            follows_dashes=follows_dashes,
        )
    return list(arguments.values()), [*usage_options.values(), *options.values()]


def _parse_usage_options(spec: str) -> list[DraftParameter]:
    """Parse the options in one group of a usage, such as `-a FILE` or `-a | -b`.

    `-abc` is three options if the letters are in the order of the alphabet, as programs write them. Otherwise, it is
    the name of one option.
    """
    alternatives = re.split(r"\s+\|\s+(?=-)", spec)
    letters = spec[1:]
    is_sorted = sorted(letters, key=str.lower) == [*letters] and len({*letters}) == len(letters)
    if is_sorted and re.fullmatch(r"\w{2,}", letters):
        alternatives = [f"-{letter}" for letter in letters]
    if len(alternatives) == 1:
        if _GENERAL_OPTION.match(spec):
            return []
        option = _parse_option(spec, "")
        return [option] if option is not None else []
    options: list[DraftParameter] = []
    for alternative in alternatives:
        options += _parse_usage_options(alternative)
    return options


def _check_subcommand(group: str, lines: Sequence[str], words: Sequence[str]) -> None:
    """Raise ConfigError for the name of a subcommand as an argument, if the text lists the commands."""
    if not (group.startswith("{") or _COMMAND.fullmatch(group)):
        return
    names = _find_commands(lines)
    if names is not None:
        raise _build_subcommand_error(_parse_choices(group) or names, words)


def _find_commands(lines: Sequence[str]) -> list[str] | None:
    """Return the names in the list of commands, or None if there is no such list."""
    start = next((number for number, line in enumerate(lines) if _COMMANDS_HEADING.match(line)), None)
    if start is None:
        return None
    names: list[str] = []
    for line in lines[start + 1 :]:
        match = _COMMAND_LINE.match(line)
        if _COMMAND_COLUMNS.match(line):
            names += re.findall(r"[a-z][\w-]*", line)
        elif match is not None:
            names += match[1].split("|")
    return names


def _build_subcommand_error(names: Sequence[str], words: Sequence[str]) -> ConfigError:
    command = shlex.join(words)
    if len(words) > 1 and words[-1] in names:
        return build_error(f"the help of `{command}` does not describe '{words[-1]}'", words)
    hint = f"Name one of its commands: {', '.join(names[:40])}" if names else "Name one of its commands"
    return ConfigError(f"'{command}' needs a command", where="import command", hint=hint)


def _check_draft(
    usage: UsageForm,
    table: _OptionTable,
    parameters: Sequence[DraftParameter],
    lines: Sequence[str],
    words: Sequence[str],
) -> None:
    """Raise ConfigError if the draft lacks most parameters of the program."""
    if table.count > _FEW_OPTIONS and table.understood * 2 < table.count:
        raise build_error(f"the help of `{shlex.join(words)}` lists its options in an unknown form", words)
    if parameters and usage.is_given:
        return
    names = _find_commands(lines)
    if names:
        raise _build_subcommand_error(names, words)
    if parameters:
        return
    if not usage.is_given or (usage.text and not table.count):
        raise build_error(f"the help of `{shlex.join(words)}` names no parameters", words)


def build_error(problem: str, words: Sequence[str]) -> ConfigError:
    """Return an error with an example of the settings."""
    hint = f"Write the settings by hand, see docs/commands.md. For example:\n\n{render_example(words)}"
    return ConfigError(problem, where="import command", hint=hint)


def _find_argument_text(name: str, lines: Sequence[str]) -> str:
    pattern = re.compile(rf"^\s+[\[<]*{re.escape(name)}[\]>.]*\s{{2,}}(\S.*)$", re.IGNORECASE)
    return next((match[1] for match in map(pattern.match, lines) if match is not None), "")


def _find_description(lines: Sequence[str], usage: UsageForm) -> str:
    """Return the first paragraph of text before the options, without usage and headings."""
    paragraph: list[str] = []
    is_skipped = False
    for number, line in enumerate(lines):
        text = line.strip().removeprefix("OVERVIEW: ")
        if text.endswith((":", "options")) and line[:1] != " ":
            is_skipped = not text.lower().startswith("description")
            text = ""
        elif not text:
            is_skipped = False
        elif not paragraph and _NO_DESCRIPTION.match(text):
            is_skipped = True
        is_text = not is_skipped and " " in text and text[0] not in "-[<*" and not line.startswith(" " * 9)
        is_text = is_text and not usage.start <= number < usage.end
        if _OPTION_LINE.match(line) or (paragraph and not is_text):
            break
        if is_text:
            paragraph.append(text)
    return " ".join(paragraph)


@dataclass(frozen=True, slots=True)
class UsageForm:
    """A usage without the words of the command. `start` and `end` are the range of lines with all usages."""

    text: str = ""
    start: int = 0
    end: int = 0

    @property
    def is_given(self) -> bool:
        """Whether the help text has a usage."""
        return self.end > 0


def find_usage(lines: Sequence[str], words: Sequence[str]) -> UsageForm:
    """Return the first usage of a help text."""
    names = {os.path.basename(word) for word in words}
    synopsis = re.compile(rf"{re.escape(' '.join([os.path.basename(words[0]), *words[1:]]))} ([\[<{{]|[A-Z]{{2}})")
    start = None
    for number, line in enumerate(lines):
        if _USAGE_HEADING.match(line) or synopsis.match(line):
            start = number
            break
    if start is None:
        return UsageForm()
    first = _USAGE_HEADING.sub("", lines[start]).strip()
    end = start + 1
    if not first:
        while end < len(lines) and not lines[end].strip():
            end += 1
        first = lines[end].strip() if end < len(lines) else ""
        end += 1
    segments = [first]
    names = {*names, *first.split()[:1]}
    is_first = True
    while end < len(lines):
        line = lines[end]
        is_next = line.split()[:1] in ([name] for name in (*names, "or", "or:"))
        if not (is_next or _CONTINUATION.match(line)) or _INDENTED_OPTION.match(line):
            break
        is_first = is_first and not is_next
        if is_first:
            segments.append(line.strip())
        end += 1
    return UsageForm(_remove_names(" ".join(segments), names), start, end)


def _remove_names(usage: str, names: set[str]) -> str:
    """Remove the words of the subcommand and the name of the program, even if it is not that of its file."""
    words = usage.split(" ")
    count = len(words)
    while words and (os.path.basename(words[0]) in names or words[0] in ("python", "python3", "-m")):
        words.pop(0)
    if len(words) == count and re.fullmatch(r"[a-z][\w.+-]*", words[0]):
        words.pop(0)
    while words and words[0] in names:
        words.pop(0)
    return " ".join(words)


def split_groups(usage: str) -> list[str]:
    """Split a usage at spaces outside of brackets. `...` belongs to the group before it."""
    groups: list[str] = []
    depth = 0
    current = ""
    # The space at the end completes the last group.
    for character in [*usage, " "]:
        if character in "[<({":
            depth += 1
        elif character in "])>}":
            depth -= 1
        if character != " " or depth > 0:
            current += character
        elif current:
            if current == "..." and groups:
                groups[-1] += current
            else:
                groups.append(current)
            current = ""
    return groups
