"""The sections `isolation` of a source and `container`. Their descriptions are in docs/settings-reference.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from mcp_bridge._settings.sections import OptionalSandbox, SettingsModel
from mcp_bridge._settings.values import EnvironmentName, Size, Whole, add_alternatives
from mcp_bridge._version import DISTRIBUTION, __version__

if TYPE_CHECKING:
    from mcp_bridge._runtime.container.command import ContainerOptions

_ENGINES = ("docker", "podman")


def _check_network(value: str) -> str:
    if value == "none":
        raise ValueError("expected true, false, or the name of a network")
    return value


# The names of networks and users, and references of images, begin with no hyphen, so none can be an option.
_Network = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"), AfterValidator(_check_network)]
_Image = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$", max_length=512)]
_User = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$")]


class ContainerSettings(SettingsModel):
    """A container of docker or podman, and what it allows besides its image and the files of the source."""

    image: _Image | None = Field(
        default=None,
        description="The image, with Python and the same version of mcp-tool-bridge as the server. It must be on this "
        "machine, because the server never pulls images. Default: `mcp-tool-bridge:VERSION`.",
    )
    engine: Literal["auto", "docker", "podman"] = Field(
        default="auto", description="The engine. `auto`: docker if it is installed, else podman."
    )
    network: bool | _Network = Field(
        default=False, description="Allow the network: `true` for the engine's default one, or the name of a network."
    )
    read: tuple[str, ...] = Field(default=(), description="More paths that can be read.")
    write: tuple[str, ...] = Field(default=(), description="Paths that can be written.")
    user: _User | None = Field(
        default=None,
        description="The user in the container, as `UID:GID` or the name of a user of the image. Default: the user of "
        "the server.",
    )
    cpus: float | None = Field(
        default=None,
        gt=0,
        le=1024,
        description="The number of CPUs for each worker, such as `1.5`. Default: all.",
    )

    def to_options(self, program: str, directory: Path, files: tuple[str, ...] = ()) -> ContainerOptions:
        """Return the options of a container for these files. Relative paths start at `directory`.

        `program` is the path of the engine's program.
        """
        from mcp_bridge._runtime.container.command import ContainerOptions

        return ContainerOptions(
            program=program,
            image=self.image or f"{DISTRIBUTION}:{__version__}",
            network=self.network,
            files=files,
            read=tuple(str((directory / path).resolve()) for path in self.read),
            write=tuple(str((directory / path).resolve()) for path in self.write),
            user=self.user,
            cpus=self.cpus,
        )


def _parse_container(value: Any) -> Any:
    if value in _ENGINES:
        return {"engine": value}
    # An empty value must not mean a process without a container.
    if value is None or isinstance(value, str):
        raise ValueError("expected docker, podman, or a mapping of image, engine, network, read, write, user, cpus")
    return value


_OptionalContainer = Annotated[
    ContainerSettings | None,
    BeforeValidator(_parse_container),
    Field(json_schema_extra=add_alternatives({"enum": list(_ENGINES)})),
]


class IsolationSettings(SettingsModel):
    """Where the tools of a source run, and which resources they may use."""

    tools: tuple[str, ...] = Field(
        default=(),
        description="Patterns (`*`, `?`) of the names of tools to isolate. Default: all tools of the source.",
    )
    workers: Whole = Field(
        default=4,
        ge=1,
        le=256,
        description="The maximum number of workers. Each runs one call at a time; other calls wait.",
    )
    memory: Size = Field(
        default=2 * 1024**3,
        description="The maximum memory of a worker, in bytes or as text such as `2 GiB`: its address space, or in a "
        "container the memory in use.",
    )
    file_size: Size = Field(default=100 * 1024**2, description="The maximum size of a file that a worker writes.")
    env: tuple[EnvironmentName, ...] = Field(
        default=(),
        description="Names of environment variables for workers, in addition to PATH, HOME, LANG and similar ones. A "
        "container has those of its image instead.",
    )
    invokes: tuple[str, ...] | None = Field(
        default=None,
        description="Names of published tools, and URIs of resources, that the isolated tools may use, with the "
        "wildcards `*` and `?`. Default: all; with a sandbox or container, none.",
    )
    sandbox: OptionalSandbox = Field(
        default=None,
        description="`true`: workers can only read the system and the files of their source, and have no "
        "network. A mapping allows more.",
    )
    container: _OptionalContainer = Field(
        default=None,
        description="`docker` or `podman`: workers run in containers, can only read the image and the files of their "
        "source, and have no network. A mapping sets details.",
    )

    @model_validator(mode="after")
    def _check_one_confinement(self) -> Self:
        if self.sandbox is not None and self.container is not None:
            raise ValueError("give either sandbox or container: a container restricts tools as a sandbox does")
        return self
