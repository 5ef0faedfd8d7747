"""Loads settings from a file or a document.

A settings file can have one of three forms: settings, a mount plan of Amplifier, or the list of servers of an MCP
client. `parse` converts the last two to settings, and moves the options of each source and policy, which the models do
not know, to the field `options`. They are validated later, with the model of the type (`parse_options`).

The functions import model.py late, because it imports pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_bridge._settings.documents.document import Document, read_document
from mcp_bridge._settings.documents.value_text import describe_kind
from mcp_bridge._settings.environment import PLAN_KEYS, expand
from mcp_bridge._settings.problems import ErrorReport
from mcp_bridge._settings.servers import has_servers, list_entry_places, prepare_servers, read_servers, remove_servers

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mcp_bridge._settings.model import PolicySettings, Settings, SourceSettings

M = TypeVar("M", bound="BaseModel")
_PLAN_HINT = "In a mount plan, each module is a mapping with `module`; all other tools are listed under `sources`."


def load(path: Path, environ: Mapping[str, str]) -> Settings:
    """Load the settings of a file, with `${NAME}` from `environ`. Raises one ConfigError for all problems."""
    return parse(read_document(path), environ)


def parse(document: Document, environ: Mapping[str, str]) -> Settings:
    """Parse the settings of a document, with `${NAME}` from `environ`. A mount plan of Amplifier becomes one source.

    Raises one ConfigError for all problems.
    """
    from mcp_bridge._settings.model import Settings, validate

    document = prepare(document)
    document = expand(document, environ, list_entry_places(document.data))
    sources = document.data.get("sources")
    # In JSON, `$schema` is the URL of the JSON Schema, for editors.
    data = {key: value for key, value in document.data.items() if key != "$schema"}
    if _is_mount_plan(data):
        data = _split_plan(data, document)
    elif isinstance(sources, list):
        data["sources"] = [_split_source(source, document, index) for index, source in enumerate(sources)]
    if isinstance(data.get("policy"), list):
        data["policy"] = [_split_policy(item, document, index) for index, item in enumerate(data["policy"])]
    if has_servers(data):
        servers = read_servers(data, document, _list_common_keys())
        data = remove_servers(data)
        data["sources"] = [*data.get("sources", ()), *servers]
    report = ErrorReport(document=document, model=Settings, hints=dict.fromkeys(PLAN_KEYS, _PLAN_HINT))
    return validate(Settings, data, document, report)


def prepare(document: Document) -> Document:
    """Convert the servers of a client's file to the form of the settings."""
    if _is_mount_plan(document.data):
        return document
    return prepare_servers(document, _list_server_keys())


def parse_options(model_class: type[M], source: SourceSettings) -> M:
    """Validate the options of a source with the model of its type.

    Unknown keys are errors, even in nested models, unless the config of the model sets `extra`. Keys of every source
    (`name`, `prefix`, `tags` ...) never reach the model, so it cannot have fields of these names.

    Raises one ConfigError that lists all problems, with file and line.
    """
    from mcp_bridge._settings.model import Origin, validate

    origin = source.origin
    common_keys = _list_common_keys()
    if origin is None:
        origin = Origin(document=Document(path="", data=dict(source.options)), where=())
    elif not origin.where:
        # The file is a mount plan, which may also have keys of the settings, of the source and of the plan.
        common_keys = (common_keys | _list_server_keys() | {*PLAN_KEYS}) - {"type"}
    report = ErrorReport(document=origin.document, model=model_class, base=origin.where, also_known=sorted(common_keys))
    return validate(model_class, source.options, origin.document, report)


def parse_policy_options(model_class: type[M], policy: PolicySettings) -> M:
    """Validate the options of a policy with its model. Raises one ConfigError for all problems."""
    from mcp_bridge._settings.model import validate

    origin = policy.origin
    if origin is None:
        return model_class.model_validate(policy.options)
    report = ErrorReport(document=origin.document, model=model_class, base=origin.where)
    return validate(model_class, policy.options, origin.document, report)


def _split_policy(item: Any, document: Document, index: int) -> dict[str, Any]:
    """Return the name of a policy and its options. Raises ConfigError unless the item has exactly one policy."""
    from mcp_bridge._settings.model import Origin

    where = ("policy", index)
    if isinstance(item, str):
        return {"name": item, "origin": Origin(document=document, where=where)}
    if not isinstance(item, dict) or len(item) != 1:
        description = describe_kind(item)
        if isinstance(item, dict):
            description = f"a mapping with the keys {', '.join(map(str, item))}"
        hint = "Begin each policy with `-`, as in `- rate_limit: {limit: 60/minute}`"
        raise document.make_error(where, f"expected one policy, found {description}", hint)
    ((name, options),) = item.items()
    place = (*where, name)
    if not isinstance(options, dict | None):
        hint = f"Write its options as a mapping, or `- {name}` alone"
        raise document.make_error(place, f"expected options, found {describe_kind(options)}", hint)
    return {"name": str(name), "options": options or {}, "origin": Origin(document=document, where=place)}


def _is_mount_plan(data: Mapping[str, Any]) -> bool:
    """Return whether a file is a mount plan or a bundle: it has a session or names modules, and no other sources."""
    if "sources" in data or has_servers(data):
        return False
    if isinstance(data.get("bundle"), dict):
        return True
    session = data.get("session")
    if isinstance(session, dict) and not {"orchestrator", "context"}.isdisjoint(session):
        return True
    for key in ("providers", "tools", "hooks"):
        modules = data.get(key)
        if not isinstance(modules, list):
            modules = [modules]
        for module in modules:
            if isinstance(module, str) or (isinstance(module, dict) and "module" in module):
                return True
    return False


def _split_plan(data: Mapping[str, Any], document: Document) -> dict[str, Any]:
    """Return the settings for a mount plan, which may also have keys of the server and of the source.

    Raises ConfigError for a second plan in `plan`.
    """
    from mcp_bridge._settings.model import Origin

    if "plan" in data:
        hint = "Move its modules to the top of the file, or write the plan under sources."
        raise document.make_error(("plan",), "this file is itself a mount plan, so it has no key 'plan'", hint)
    server_keys = _list_server_keys()
    common_keys = _list_common_keys() - {"type"}
    plan: dict[str, Any] = {}
    options: dict[str, Any] = {"plan": plan}
    source = {"type": "amplifier", "options": options, "origin": Origin(document=document, where=())}
    settings: dict[str, Any] = {"sources": [source]}
    for key, value in data.items():
        if key in PLAN_KEYS:
            plan[key] = value
        elif key in server_keys:
            settings[key] = value
        elif key in common_keys:
            source[key] = value
        else:
            options[key] = value
    return settings


def _split_source(source: Any, document: Document, index: int) -> Any:
    """Move the keys of the type of a source to `options`."""
    from mcp_bridge._settings.model import Origin

    if not isinstance(source, dict):
        return source
    common_keys = _list_common_keys()
    common = {key: value for key, value in source.items() if key in common_keys}
    options = {key: value for key, value in source.items() if key not in common_keys}
    where = ("sources", index)
    origin = Origin(document=document, where=where, problem=document.entry_problems.get(where))
    return {**common, "options": options, "origin": origin}


def _list_server_keys() -> set[str]:
    """Return the keys of settings files, except `sources`."""
    from mcp_bridge._settings.model import Settings

    return set(Settings.model_fields) - {"sources"}


def _list_common_keys() -> set[str]:
    """Return the common keys of sources of all types."""
    from mcp_bridge._settings.model import SourceSettings

    return set(SourceSettings.model_fields) - {"options", "origin"}
