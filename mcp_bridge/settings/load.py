"""From a settings file to checked settings.

pydantic is imported with model.py inside the functions, so that importing this room stays cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_bridge.documents.document import Document, read
from mcp_bridge.settings.environment import expand
from mcp_bridge.settings.problems import Report

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mcp_bridge.settings.model import Settings, SourceSettings

M = TypeVar("M", bound="BaseModel")


def load(path: Path, environ: Mapping[str, str]) -> Settings:
    """The settings in a file, with `${NAME}` taken from `environ`.

    Raises ConfigError that lists everything that is wrong.
    """
    return parse(read(path), environ)


def parse(document: Document, environ: Mapping[str, str]) -> Settings:
    """The settings in a document, with `${NAME}` taken from `environ`; a mount plan of Amplifier is one source.

    Raises ConfigError that lists everything that is wrong.
    """
    from mcp_bridge.settings.model import Origin, Settings, validate

    document = expand(document, environ)
    sources = document.data.get("sources")
    data = {key: value for key, value in document.data.items() if key != "$schema"}  # an editor's, in JSON
    if _is_plan(data):
        options = {"git": data.pop("git")} if "git" in data else {}  # Amplifier has no such key
        options["plan"] = data
        plan = {"type": "amplifier", "options": options, "origin": Origin(document=document, where=())}
        return validate(Settings, {"sources": [plan]}, document, Report(document=document, model=Settings))
    if isinstance(sources, list):
        data["sources"] = [_source(source, document, index) for index, source in enumerate(sources)]
    return validate(Settings, data, document, Report(document=document, model=Settings))


def options(model_class: type[M], source: SourceSettings) -> M:
    """The options of a source, checked by the model of its type.

    Unknown keys are errors, in nested models too, unless the config of the model says `extra` itself.
    A key of the frame (`name`, `prefix`, `tags` ...) never reaches the options: no model may use these names.

    Raises ConfigError that lists everything that is wrong, at the file and line of the source.
    """
    from mcp_bridge.settings.model import Origin, validate

    origin = source.origin or Origin(document=Document(path="", data=dict(source.options)), where=())
    report = Report(document=origin.document, model=model_class, base=origin.where, also_known=sorted(_frame_keys()))
    return validate(model_class, source.options, origin.document, report)


def _is_plan(data: Mapping[str, Any]) -> bool:
    """Whether a file is a mount plan as it is: no key of ours, and a session or a list of modules."""
    lists = [data[key] for key in ("providers", "tools", "hooks") if isinstance(data.get(key), list)]
    modules = any(isinstance(one, dict) and "module" in one for modules in lists for one in modules)
    session = data.get("session")
    loop = isinstance(session, dict) and not {"orchestrator", "context"}.isdisjoint(session)
    return "sources" not in data and (loop or modules)


def _source(source: Any, document: Document, index: int) -> Any:
    """The keys of the frame as they are, the others as `options`."""
    from mcp_bridge.settings.model import Origin

    if not isinstance(source, dict):
        return source
    known = _frame_keys()
    framed = {key: value for key, value in source.items() if key in known}
    rest = {key: value for key, value in source.items() if key not in known}
    return {**framed, "options": rest, "origin": Origin(document=document, where=("sources", index))}


def _frame_keys() -> set[str]:
    """The keys that every source may have, whatever its type."""
    from mcp_bridge.settings.model import SourceSettings

    return set(SourceSettings.model_fields) - {"options", "origin"}
