"""Backups as a human at a shell makes them: real processes only."""

import json
from pathlib import Path

from shared.database import verify_backup
from tests.acceptance.test_cli import Shell


def test_a_human_makes_a_backup_beside_a_running_adapter(short_folder: Path) -> None:
    """It holds what was sent, is told of by the adapter, and is copied to where it is wanted."""
    shell = Shell(short_folder, "orchestrator,pm")
    with shell.up():
        for text in ("one", "two"):
            shell.send("pm", "product", text)
        done = shell("backup", "--json")
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert made["last_message"] == 2
        verify_backup(Path(made["file"]))
        mine = short_folder / "mine.db"
        assert shell("backup", "--to", mine).returncode == 0
        verify_backup(mine)
        listed = json.loads(shell("backup", "list", "--json").stdout)
        assert [one["last_message"] for one in listed["backups"]] == [2, 2]
        (short_folder / "state" / "adapter" / "backups").chmod(0o500)
        (short_folder / "keys" / "human-governor.key").rename(short_folder / "aside")
        refused = shell("backup")
        assert (refused.returncode, "human-governor" in refused.stderr) == (78, True)
    assert len(list((short_folder / "state" / "adapter" / "backups").iterdir())) == 2
