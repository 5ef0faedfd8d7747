"""Finds the classes of sources, policies and stores by their names in the settings.

The tables contain references instead of classes, so that a start imports only the classes that its settings use.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.source import Source
from mcp_bridge._contracts.store import Store
from mcp_bridge._runtime.requirements import suggest_package

SOURCES: dict[str, str] = {
    "amplifier": "mcp_bridge._integrations.amplifier.source.source:AmplifierSource",
    "command": "mcp_bridge._sources.command.source:CommandSource",
    "framework": "mcp_bridge._integrations.frameworks.source:FrameworkSource",
    "mcp": "mcp_bridge._sources.upstream.source:UpstreamSource",
    "openapi": "mcp_bridge._sources.openapi.source:OpenApiSource",
    "python": "mcp_bridge._sources.python.source:PythonSource",
    "skills": "mcp_bridge._sources.skills:SkillsSource",
    "xaibo": "mcp_bridge._integrations.xaibo.source.source:XaiboSource",
}
"""Source types by name: classes that derive from `mcp_bridge._contracts.source.Source`."""

POLICIES: dict[str, str] = {
    "audit": "mcp_bridge._policies.audit:AuditPolicy",
    "redact": "mcp_bridge._policies.redact:RedactPolicy",
    "allow": "mcp_bridge._policies.access:AllowPolicy",
    "deny": "mcp_bridge._policies.access:DenyPolicy",
    "read_only": "mcp_bridge._policies.read_only:ReadOnlyPolicy",
    "rate_limit": "mcp_bridge._policies.rate_limit:RateLimitPolicy",
    "approval": "mcp_bridge._policies.approval:RequiredApproval",
    "cache": "mcp_bridge._policies.cache:CachePolicy",
    "retry": "mcp_bridge._policies.retry:RetryPolicy",
}
"""Policies by name: classes that derive from `mcp_bridge._policies.base.ToolPolicy`, whose fields are the options.

Within a stage, their layers have the order of this table, outermost first. docs/policies.md ("The order of a call") has
the consequences: a denied call, for example, does not count towards rate limits.
"""

STORES: dict[str, str] = {
    "memory": "mcp_bridge._storage.stores.memory:MemoryStore",
    "redis": "mcp_bridge._storage.stores.redis:RedisStore",
    "sqlite": "mcp_bridge._storage.stores.sqlite:SqliteStore",
}
"""Stores by name: classes that are called with the arguments of `make_store`."""


def load_object(reference: str) -> Any:
    """Return the object at `module:attribute`. Raises ConfigError with the wrong part."""
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        hint = suggest_package(error).removeprefix(". ") or "Install the package, or fix the name"
        raise ConfigError(f"plugin '{reference}': {error}", hint=hint) from error
    except Exception as error:
        # A third-party module can raise anything, and `import_module` raises ValueError for an empty name.
        problem = f"plugin '{reference}': {type(error).__name__}: {error}"
        raise ConfigError(problem, hint="Write it as package.module:Name, or fix the module") from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        hint = "Write it as package.module:Name"
        raise ConfigError(f"plugin '{reference}': '{module_name}' has no '{attribute}'", hint=hint) from None


def load_source_type(name: str) -> type[Source]:
    """Return the class of a source type, possibly a third-party `module:attribute`. Raises ConfigError."""
    if ":" not in name and name not in SOURCES:
        names = ", ".join(sorted(SOURCES))
        raise ConfigError(f"unknown source type '{name}'", hint=f"Known types: {names}, or your own as module:Name")
    source_type = load_object(SOURCES.get(name, name))
    if not (isinstance(source_type, type) and issubclass(source_type, Source)):
        raise ConfigError(
            f"'{name}' is not a source", hint="It has to be a class that derives from mcp_bridge.sources.Source"
        )
    return source_type


def load_source_models() -> dict[str, type[Any]]:
    """Return the models of the options of all sources in the table."""
    models = {name: load_source_type(name).load_options() for name in SOURCES}
    return {name: model for name, model in models.items() if model is not None}


def load_policy_type(name: str) -> Any:
    """Return the class of a policy, or a third-party object at `module:attribute`. Raises ConfigError."""
    if ":" in name:
        return load_object(name)
    if name not in POLICIES:
        similar_names = difflib.get_close_matches(name, POLICIES, n=1)
        if similar_names:
            hint = f"Did you mean '{similar_names[0]}'?"
        else:
            hint = f"Known policies: {', '.join(POLICIES)}, or your own as module:Name"
        raise ConfigError(f"unknown policy '{name}'", hint=hint)
    return load_object(POLICIES[name])


def make_store(name: str, *arguments: Any) -> Store:
    """Make a store of the table from its arguments, such as a path or an address.

    A third-party class or function (`module:attribute`) is called without arguments. Raises ConfigError.
    """
    where = "state.store"
    if ":" not in name and name not in STORES:
        hint = "Known stores: memory, sqlite, sqlite:PATH, redis://HOST, or your own as module:Name"
        raise ConfigError(f"unknown store '{name}'", where=where, hint=hint)
    factory = load_object(STORES.get(name, name))
    try:
        store = factory(*arguments) if name in STORES else factory()
        if name == "sqlite":
            # An unusable file fails the start, not the first call.
            store.check_file()
    except Exception as error:
        # A third-party factory can raise anything.
        raise ConfigError(f"store '{name}' cannot be made: {error}", where=where) from error
    if not isinstance(store, Store):
        hint = "A store has the methods get, set, add and delete"
        raise ConfigError(f"'{name}' returns {type(store).__name__}, which is not a store", where=where, hint=hint)
    return store
