"""The options of an Amplifier source in the settings file. Imports pydantic, so it is imported late."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from mcp_bridge.amplifier.plan import Problem, read
from mcp_bridge.amplifier.source.journal import SIZE
from mcp_bridge.amplifier.source.resolver import Resolver
from mcp_bridge.amplifier.source.sessions import Keeping
from mcp_bridge.amplifier.source.source import AmplifierSource
from mcp_bridge.settings import Document, Duration, Frame, Size, Whole


class AmplifierOptions(Frame):
    """Tools and hooks of Amplifier modules, by a mount plan."""

    plan: dict[str, Any] = Field(
        description="The mount plan: session, providers, tools, hooks and agents, as Amplifier has them."
    )
    hook_timeout: Duration = Field(
        default=30.0, description="How long one hook may take to decide about a call; then the call is denied."
    )
    call_ids: tuple[str, ...] = Field(
        default=(), description="Patterns (`*`, `?`) of the names of tools that get the call's id as `_tool_call_id`."
    )
    sessions: Literal["client", "shared"] = Field(
        default="client",
        description="Who has the modules' state: each client its own, or all the same. Clients of the stateless era "
        "have one each only where they name it (`_meta` key `mcp-bridge/session`), or are known by who they are.",
    )
    session_idle: Duration = Field(
        default=1800.0, description="How long a client's session may be without a call before it ends."
    )
    session_limit: Whole = Field(
        default=100,
        ge=1,
        le=100_000,
        description="The most sessions at once. One more ends the one that was idle longest; where none is idle the "
        "call is refused.",
    )

    host: Literal["auto", "native", "core"] = Field(
        default="auto",
        description="What mounts the modules: the bridge (`native`), or amplifier-core (`core`, with the extra "
        "`amplifier`); `auto` takes amplifier-core where a module imports it.",
    )
    git: tuple[str, ...] = Field(
        default=(),
        description="Patterns (`*`, `?`) of the repositories that modules may come from, such as "
        "`https://github.com/microsoft/*`; `mcp-bridge module lock` fetches them. None means no modules from git.",
    )
    modules: str | None = Field(
        default=None,
        min_length=1,
        description="The folder that modules from git are kept in; none means one of the user's.",
    )
    mount_timeout: Duration = Field(
        default=30.0,
        description="How long a module may take until it is mounted, and then until it is ready; a hook module that "
        "takes longer has every call denied.",
    )
    events: str | None = Field(
        default=None,
        min_length=1,
        description="The file of the events log, a line of JSON for each event; `{session_id}` in it stands for the "
        "session, which then has a file of its own. None means no log.",
    )
    events_size: Size = Field(
        default=SIZE, description="How large the events log may be before it starts anew; three older ones are kept."
    )
    status: bool = Field(
        default=True,
        description="Let clients read what is mounted in their session, and what its modules contribute "
        "(`amplifier://NAME/status`, `amplifier://NAME/contributions`).",
    )

    _file: str = PrivateAttr(default="")

    def model_post_init(self, context: Any, /) -> None:
        """Keep which file this is from, for errors that say what to run."""
        if isinstance(context, Document):
            self._file = context.path

    @field_validator("plan")
    @classmethod
    def _sound(cls, plan: dict[str, Any]) -> dict[str, Any]:
        _, problems = read(plan)
        if problems:
            raise ValidationError.from_exception_data("plan", [_told(problem) for problem in problems])
        return plan

    def build(self, name: str, directory: Path, *, watch: bool) -> AmplifierSource:
        """The source; relative paths in the plan start at `directory`."""
        plan, _ = read(self.plan)
        directory = directory.resolve()
        return AmplifierSource(
            name,
            plan,
            config=self.plan,
            directory=directory,
            hook_timeout=self.hook_timeout,
            call_ids=self.call_ids,
            keeping=Keeping(shared=self.sessions == "shared", most=self.session_limit, idle=self.session_idle),
            host=self.host,
            mount_timeout=self.mount_timeout,
            events=directory / Path(self.events).expanduser() if self.events is not None else None,
            events_size=self.events_size,
            status=self.status,
            resolver=Resolver(directory, git=self.git, modules=self.folder(directory), file=self._file),
        )

    def folder(self, directory: Path) -> Path | None:
        """The folder of modules from git, where the settings in `directory` say; None for the user's."""
        return directory.resolve() / Path(self.modules).expanduser() if self.modules is not None else None

    def default_name(self) -> str:
        """What the source is called when the settings do not say."""
        return "amplifier"


def _told(problem: Problem) -> InitErrorDetails:
    """A problem at its own place, so that it is told with the line of that place."""
    kind = PydanticCustomError("plan", "{problem}", {"problem": problem.problem})
    return InitErrorDetails(type=kind, loc=problem.place, input=problem.found)
