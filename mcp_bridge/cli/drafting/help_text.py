"""Parses what programs print for `--help`: the forms of GNU, argparse, optparse, clap, curl and git."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mcp_bridge.cli.drafting.draft import DraftCommand, DraftParameter
from mcp_bridge.contracts.errors import ConfigError

_OPTION_LINE = re.compile(r"^ {1,10}(-\S.*)$")
_FLAG = re.compile(r"(?P<flag>-\w(?![\w-])|--(?P<no>\[no-\])?\w[\w.-]*)(?P<rest>.*)", re.DOTALL)
_SEPARATORS = re.compile(r",\s+|\s+/\s+|\s*\|\s*(?=-)|,$")
_DESCRIPTION = re.compile(r"(?:\s{2,}|\t+)(?=\S)")
_CHOICES = re.compile(r"^[\[({<]?([\w.+-]+(?:[,|][\w.+-]+)+)[\])}>]?$")
_POSSIBLE = re.compile(r"\[possible values: ([^\]]+)\]")
_NUMBERS = re.compile(r"(num|number|n|int|integer|count|lines|seconds|port|size|depth|width)", re.IGNORECASE)
_PATHS = re.compile(r"(file|files|filename|path|paths|dir|directory|folder|pathspec)", re.IGNORECASE)
_COMMANDS = re.compile(r"^(?:commands|subcommands|available commands|positional arguments):?\s*$", re.IGNORECASE)
_SKIPPED = frozenset({"help", "version", "h", "V"})


def parse_help(text: str, words: Sequence[str]) -> DraftCommand:
    """Draft a command from its help text. Raises ConfigError for a program that needs the name of a subcommand."""
    lines = text.expandtabs().splitlines()
    usage = _find_usage(lines, words)
    arguments, required = _parse_arguments(_split_groups(usage), lines, words)
    options = [replace(one, is_required=not required.isdisjoint(flags)) for one, flags in _parse_options(lines)]
    return DraftCommand(
        words=words,
        description=_find_description(lines),
        parameters=[*options, *arguments],
    )


def _find_usage(lines: Sequence[str], words: Sequence[str]) -> str:
    """Return the first usage, without the words of the command."""
    start = next((number for number, line in enumerate(lines) if re.match(r"\s*usage:", line, re.IGNORECASE)), None)
    if start is None:
        return ""
    first = re.sub(r"^\s*usage:\s*", "", lines[start], flags=re.IGNORECASE)
    rest = lines[start + 1 :]
    if not first.strip() and rest:
        first, rest = rest[0], rest[1:]
    names = {os.path.basename(word) for word in words}
    parts = [first.strip()]
    for line in rest:
        is_next = not line.startswith(" ") or not line.strip() or line.split()[0] in {*names, "or:"}
        if is_next or _OPTION_LINE.match(line):
            break
        parts.append(line.strip())
    found = " ".join(parts).split(" ")
    while found and (os.path.basename(found[0]) in names or found[0] in ("python", "python3", "-m")):
        found.pop(0)
    return " ".join(found)


def _parse_options(lines: Sequence[str]) -> Iterator[tuple[DraftParameter, set[str]]]:
    """Yield the options, each once, and how they can be written. A description may follow on more indented lines."""
    seen: set[str] = set()
    for number, line in enumerate(lines):
        match = _OPTION_LINE.match(line)
        if match is None:
            continue
        spec, *described = _DESCRIPTION.split(match[1], maxsplit=1)
        indent = len(line) - len(line.lstrip())
        for following in lines[number + 1 :]:
            if not following.strip():
                if described:
                    break
                continue
            if len(following) - len(following.lstrip()) <= indent + 1 or _OPTION_LINE.match(following):
                break
            described.append(following.strip())
        option = _parse_option(spec, " ".join(described))
        if option is not None and option.option not in seen:
            seen.add(option.option)
            yield option, set(re.findall(r"--?\w[\w-]*", spec))


def _parse_option(spec: str, description: str) -> DraftParameter | None:
    """Parse `-n, --number=NUM` and its variants. Return None for what is no option, or is of no use to a model."""
    matches = [match for part in _SEPARATORS.split(spec.strip()) if (match := _FLAG.match(part))]
    if not matches:
        return None
    main = next((match for match in matches if match["flag"].startswith("--")), matches[0])
    flag = main["flag"].replace("[no-]", "")
    name = flag.lstrip("-")
    if any(match["flag"].lstrip("-") in _SKIPPED for match in matches):
        return None
    rest = next((match["rest"] for match in (main, *matches) if match["rest"].strip()), "").strip()
    is_joined = "=" in rest[:2]
    value = re.sub(r"^\[?=", "", rest).strip(" ,")
    negation = f"--no-{name}" if main["no"] else ""
    others = [match["flag"] for match in matches if match["flag"] == f"--no-{name}"]
    if not value or (value == "]" and not is_joined):
        return DraftParameter(
            name=name, option=flag, negation=negation or "".join(others), kind="boolean", description=description
        )
    possible = _POSSIBLE.search(description)
    choices = possible[1].split(", ") if possible is not None else _parse_choices(value)
    several = "..." in value and " " in value
    return DraftParameter(
        name=name,
        option=flag,
        kind=_guess_kind(value),
        choices=choices,
        description=description,
        is_list=several,
        takes_several=several,
        is_joined=is_joined and flag.startswith("--"),
    )


def _parse_choices(value: str) -> list[str]:
    found = _CHOICES.match(value)
    return re.split(r"[,|]", found[1]) if found is not None else []


def _guess_kind(value: str) -> str:
    name = re.sub(r"[^\w]+", "", value.split(" ", maxsplit=1)[0])
    if _NUMBERS.fullmatch(name):
        return "integer"
    return "path" if _PATHS.fullmatch(name) else "string"


def _split_groups(usage: str) -> list[str]:
    """Split a usage at spaces outside of brackets. `...` belongs to the group before it."""
    groups: list[str] = []
    depth, current = 0, ""
    for character in [*usage, " "]:
        depth += (character in "[<({") - (character in "])>}")
        if character != " " or depth > 0:
            current += character
        elif current:
            if current == "..." and groups:
                groups[-1] += current
            else:
                groups.append(current)
            current = ""
    return groups


def _parse_arguments(
    groups: Sequence[str], lines: Sequence[str], words: Sequence[str]
) -> tuple[list[DraftParameter], set[str]]:
    """Return the arguments, and the options that are required. Raises ConfigError."""
    arguments: dict[str, DraftParameter] = {}
    required: set[str] = set()
    follows_dashes = is_value = False
    for group in groups:
        is_list, is_optional = "..." in group, group.startswith("[")
        inner = group.replace("...", "").strip("[] ")
        if inner.startswith("--]") or inner.startswith("-- ") or inner == "--":
            follows_dashes = True
            inner = inner[2:].strip("[] ")
        if inner.startswith("-"):
            if not is_optional:
                required.add(inner.split(" ")[0].split("=")[0])
            is_value = not is_optional and "=" not in inner
            continue
        if is_value or not inner or re.search(r"option|flags", inner, re.IGNORECASE):
            is_value = False
            continue
        _check_subcommand(inner, lines, words)
        name = re.sub(r"[^\w-]+", " ", inner.split(" [")[0]).strip()
        if not name:
            continue
        is_list = is_list or name in arguments
        arguments[name] = DraftParameter(
            name=name,
            kind=_guess_kind(name),
            choices=_parse_choices(inner),
            description=_find_argument_text(name, lines),
            is_list=is_list,
            is_required=not is_optional if name not in arguments else arguments[name].is_required,
            follows_dashes=follows_dashes,
        )
    return list(arguments.values()), required


def _check_subcommand(group: str, lines: Sequence[str], words: Sequence[str]) -> None:
    """Raise ConfigError for an argument that is the name of a subcommand."""
    start = next((number for number, line in enumerate(lines) if _COMMANDS.match(line.strip())), None)
    is_command = re.fullmatch(r"[<\[{(]*(sub)?commands?[>\]})]*", group, re.IGNORECASE) is not None
    if not (is_command or (group.startswith("{") and start is not None)):
        return
    found = re.findall(r"^ {2,6}([a-z][\w-]*)(?: {2,}|,|$)", "\n".join(lines[(start or 0) + 1 :]), re.MULTILINE)
    names = _parse_choices(group) or found
    hint = f"Name one of its commands: {', '.join(names[:40])}" if names else "Name one of its commands"
    raise ConfigError(f"'{' '.join(words)}' needs a command", where="import-command", hint=hint)


def _find_argument_text(name: str, lines: Sequence[str]) -> str:
    pattern = re.compile(rf"^\s+[\[<]*{re.escape(name)}[\]>.]*\s{{2,}}(\S.*)$", re.IGNORECASE)
    return next((match[1] for line in lines if (match := pattern.match(line))), "")


def _find_description(lines: Sequence[str]) -> str:
    """Return the first line of text before the options that is neither a usage nor a heading."""
    is_usage = False
    for line in lines:
        if _OPTION_LINE.match(line):
            break
        is_start = re.match(r"\s*(usage|or):", line, re.IGNORECASE) is not None
        is_usage = is_start or (is_usage and line.startswith(" "))
        text = line.strip()
        is_heading = line[:1] != " " and text.endswith((":", "options"))
        if not is_usage and not is_heading and " " in text and text[0] not in "-[<":
            return text
    return ""
