"""URIs of files become paths on a drive of the machine, and only one user can use a private folder."""

from __future__ import annotations

import pytest

from mcp_bridge._runtime.platform.windows import convert_uri_path
from mcp_bridge._runtime.platform.windows_access import find_other_users

USER = "S-1-5-21-11-22-33-1001"
PRIVATE = f"(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICIID;FA;;;{USER})"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/C:/Users/ada", r"C:\Users\ada"),
        ("/c%3A/My%20Notes", r"c:\My Notes"),
        ("/C|/notes", r"C:\notes"),
        ("C:/notes", r"C:\notes"),
        ("/D:", "D:\\"),
        ("/C:/caf%C3%A9", r"C:\café"),
    ],
)
def test_the_path_of_a_uri_is_that_of_a_file(path: str, expected: str) -> None:
    assert convert_uri_path(path) == expected


@pytest.mark.parametrize(
    "path", ["//server/share", "////server/share", "/%5C%5Cserver%5Cshare", "//./pipe/x", "/etc", "", "/"]
)
def test_other_hosts_devices_and_paths_without_a_drive_are_rejected(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path on a drive"):
        convert_uri_path(path)


@pytest.mark.parametrize(
    ("rights", "others"),
    [
        (f"O:{USER}G:{USER}D:P{PRIVATE}", []),
        (f"O:BAD:AI{PRIVATE}", []),
        (f"O:{USER}D:P(A;OICI;FA;;;OW)(A;OICIIO;FA;;;CO)(D;;FA;;;WD)", []),
        (f"O:{USER}D:AI{PRIVATE}(A;OICI;0x1200a9;;;BU)", ["BU"]),
        (f"O:{USER}D:{PRIVATE}(XA;;FR;;;S-1-5-21-9;(Member_of {{SID(BA)}}))", ["S-1-5-21-9"]),
        (f"O:S-1-5-21-9D:{PRIVATE}", ["S-1-5-21-9"]),
        (f"O:{USER}D:NO_ACCESS_CONTROL", ["everybody"]),
        (f"O:{USER}", ["everybody"]),
        ("", ["everybody", "unknown owner"]),
        ("O:LAD:(A;;FA;;;LA)", ["LA"]),
    ],
)
def test_everybody_else_with_access_to_a_folder_is_named(rights: str, others: list[str]) -> None:
    assert find_other_users(rights, USER) == others


def test_the_built_in_administrator_may_be_the_user() -> None:
    assert find_other_users("O:LAD:(A;;FA;;;LA)", "S-1-5-21-11-22-33-500") == []
