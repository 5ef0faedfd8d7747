"""Skills: folders that a server publishes as resources with digests, lists as skills, and lets clients browse."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Offer, SourceContext
from mcp_bridge._sources.skills import SkillsOptions, SkillsSource
from tests.client.server_process import Way
from tests.kits.constants import TIMEOUT
from tests.kits.survival.survival_kit import run_server

EXTENSION = "io.modelcontextprotocol/skills"
FRONTMATTER = "---\nname: {name}\ndescription: How to {name}.\n---\nDo it.\n"
INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601
SETTINGS = {"sources": [{"type": "skills", "path": "skills"}]}
WAYS = [Way("stdio", stateless) for stateless in (False, True)]


def write_skill(folder: Path, name: str, text: str = FRONTMATTER) -> Path:
    skill = folder / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(text.format(name=name))
    return skill


def load_offer(folder: Path) -> Offer:
    offers: list[Offer] = []
    anyio.run(SkillsSource("skills", SkillsOptions(path=str(folder)), SourceContext()).run, offers.append)
    return offers[0]


@pytest.mark.parametrize("way", WAYS, ids=["handshake", "stateless"])
def test_clients_find_skills_and_can_check_each_file(way: Way, tmp_path: Path) -> None:
    skill = write_skill(tmp_path / "skills", "take-fruit")
    write_skill(tmp_path / "skills", "wash-fruit")
    (skill / "a b").mkdir()
    (skill / "a b" / "apple.png").write_bytes(b"\x89PNG\xff")
    with run_server(way, tmp_path, settings=SETTINGS) as server:
        if way.stateless:
            capabilities = server.send_request("server/discover", {}).result(TIMEOUT)["result"]["capabilities"]
            assert capabilities["extensions"] == {EXTENSION: {"directoryRead": True}}
        skills = server.send_request("skills/list", {}).result(TIMEOUT)["result"]["skills"]
        assert [resource["uri"] for resource in skills] == [
            "skill://take-fruit/SKILL.md",
            "skill://wash-fruit/SKILL.md",
        ]
        found = server.send_request("skills/get", {"uri": skills[0]["uri"]}).result(TIMEOUT)["result"]["skill"]
        assert found == skills[0]
        assert found["frontmatter"] == {"name": "take-fruit", "description": "How to take-fruit."}
        assert [resource["uri"] for resource in found["resources"]] == [
            "skill://take-fruit/SKILL.md", "skill://take-fruit/a%20b/apple.png",
        ]  # fmt: skip
        for resource in found["resources"]:
            contents = server.send_request("resources/read", {"uri": resource["uri"]}).result(TIMEOUT)["result"][
                "contents"
            ][0]
            content = base64.b64decode(contents["blob"]) if "blob" in contents else contents["text"].encode()
            assert len(content) == resource["size"]
            assert f"sha256:{hashlib.sha256(content).hexdigest()}" == resource["digest"]


@pytest.mark.parametrize("way", WAYS, ids=["handshake", "stateless"])
def test_directories_of_skills_can_be_browsed(way: Way, tmp_path: Path) -> None:
    skill = write_skill(tmp_path / "skills", "take-fruit")
    (skill / "pictures").mkdir()
    (skill / "pictures" / "apple.svg").write_text("<svg/>")
    with run_server(way, tmp_path, settings=SETTINGS) as server:

        def read(uri: str) -> Any:
            return server.send_request("resources/directory/read", {"uri": uri}).result(TIMEOUT)

        root = read("skill://take-fruit")["result"]["resources"]
        assert [(resource["uri"], resource["mimeType"]) for resource in root] == [
            ("skill://take-fruit/SKILL.md", "text/markdown"), ("skill://take-fruit/pictures", "inode/directory"),
        ]  # fmt: skip
        (apple,) = read("skill://take-fruit/pictures/")["result"]["resources"]
        assert (apple["uri"], apple["mimeType"]) == ("skill://take-fruit/pictures/apple.svg", "image/svg+xml")
        for uri in (apple["uri"], "skill://none", "skill://", "skill:/", "", "file:///etc"):
            assert read(uri)["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize("way", WAYS, ids=["handshake", "stateless"])
def test_wrong_requests_are_errors_with_a_reason(way: Way, tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "take-fruit")
    with run_server(way, tmp_path, settings=SETTINGS) as server:
        for method, params, message in (
            ("skills/get", {"uri": "skill://none/SKILL.md"}, "Skill not found: skill://none/SKILL.md"),
            ("skills/get", {}, "params.uri: required field missing"),
            ("skills/get", {"uri": 5}, "params.uri: expected a string"),
            ("skills/list", {"cursor": 5}, "params.cursor: expected a string"),
            ("skills/list", {"cursor": "wrong"}, "Invalid cursor. Start again without a cursor."),
            ("resources/directory/read", {}, "params.uri: required field missing"),
        ):
            error = server.send_request(method, params).result(TIMEOUT)["error"]
            assert (error["code"], error["message"]) == (INVALID_PARAMS, message)


def test_a_server_without_skills_has_no_such_methods(tmp_path: Path) -> None:
    with run_server(Way("stdio", True), tmp_path) as server:
        assert server.send_request("skills/list", {}).result(TIMEOUT)["error"]["code"] == METHOD_NOT_FOUND
        response = server.send_request("server/discover", {}).result(TIMEOUT)["result"]
        assert "extensions" not in response["capabilities"]


def make_large(skill: Path) -> None:
    with (skill / "large").open("wb") as file:
        file.truncate(16 * 1024 * 1024)


def make_many(skill: Path) -> None:
    for number in range(512):
        (skill / str(number)).touch()


@pytest.mark.parametrize(
    ("name", "text", "change", "reason"),
    [
        ("ok", "Do it.", None, "SKILL.md does not begin with frontmatter: YAML between two lines of ---"),
        ("ok", "---\nname: [\n---\n", None, "the frontmatter of SKILL.md cannot be read: "),
        ("ok", "---\n- name\n---\n", None, "the frontmatter of SKILL.md needs the text `name`"),
        ("ok", "---\nname: ok\n---\n", None, "the frontmatter of SKILL.md needs the text `description`"),
        ("ok", FRONTMATTER.replace("{name}", "other"), None, "SKILL.md names it 'other', but its folder is 'ok'"),
        ("Not_OK", FRONTMATTER, None, "the name of its folder must have 1 to 64 letters a to z, digits"),
        ("ok", FRONTMATTER, make_large, "it has more than 512 files, or more than 16 MiB"),
        ("ok", FRONTMATTER, make_many, "it has more than 512 files, or more than 16 MiB"),
    ],
)  # fmt: skip
def test_a_skill_that_is_wrong_is_reported_and_the_others_are_published(
    name: str, text: str, change: Callable[[Path], None] | None, reason: str, tmp_path: Path
) -> None:
    write_skill(tmp_path, "good")
    skill = write_skill(tmp_path, name, text)
    if change:
        change(skill)
    offer = load_offer(tmp_path)
    assert [entry.uri for entry in offer.resources] == ["skill://good/SKILL.md"]
    (problem,) = offer.problems
    assert problem.startswith(f"skill '{name}' is not published: {reason}")


def test_links_to_files_outside_of_a_skill_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    skill = write_skill(tmp_path / "skills", "good")
    (skill / "link").symlink_to(tmp_path / "secret")
    (skill / "folder").symlink_to(tmp_path)
    assert [entry.uri for entry in load_offer(tmp_path / "skills").resources] == ["skill://good/SKILL.md"]


def test_a_folder_can_be_a_single_skill(tmp_path: Path) -> None:
    assert [entry.name for entry in load_offer(write_skill(tmp_path, "good")).resources] == ["good"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_skills_is_an_error(exists: bool, tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    if exists:
        folder.mkdir()
    with pytest.raises(SourceError, match=r"has no skills: expected folders that have a SKILL\.md"):
        load_offer(folder)
