"""`multiclaw install-units`, below a folder; with a real systemd it is tested in `tests/systemd`."""

from pathlib import Path

import pytest

from multiclaw import units
from tests.unit.cli.runner import run

AGENTS = "orchestrator,pm"


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A deployment made for systemd."""
    monkeypatch.setattr(units, "_HIDDEN", ())  # the interpreter of the tests may stand anywhere
    assert run(monkeypatch, "init", "--system", "--dir", tmp_path / "etc", "--agents", AGENTS).status == 0
    return tmp_path / "etc"


@pytest.fixture
def install(monkeypatch, folder, tmp_path):
    """`multiclaw install-units --root …`."""
    return lambda *more: run(
        monkeypatch, "install-units", "--config", folder / "multiclaw.toml", "--root", tmp_path / "root", *more
    )


def written(tmp_path: Path) -> dict[str, str]:
    """Every file and link below the root: text, or what the link names."""
    found = sorted((tmp_path / "root").rglob("*"))
    return {
        str(path.relative_to(tmp_path / "root")): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in found
        if path.is_symlink() or path.is_file()
    }


def test_a_deployment_for_systemd_leaves_its_folders_to_it(folder):
    """`init --system` makes the file, the keys and the contracts' folder; state, sockets and tokens are not made."""
    made = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    keys = {f"keys/{name}.key" for name in ("orchestrator", "pm", "human-governor")}
    assert made == {"multiclaw.toml", "keys", "contracts", *keys}
    text = (folder / "multiclaw.toml").read_text()
    assert 'state = "/var/lib/multiclaw"' in text
    assert 'run = "/run/multiclaw"' in text
    assert (folder / "contracts").stat().st_mode & 0o777 == 0o755
    assert (folder / "keys").stat().st_mode & 0o777 == 0o700


def test_units_name_this_installation(install, folder, tmp_path):
    """Programs and folders are those that are installed; nothing is left of the places in the templates."""
    assert install().status == 0
    files = written(tmp_path)
    adapter = files["etc/systemd/system/multiclaw-adapter.service"]
    assert f"/bin/python -P -m adapter --config {folder}/multiclaw.toml\n" in adapter
    assert "LoadCredential=%i.key:" + str(folder / "keys") in files["etc/systemd/system/multiclaw-sidecar@.service"]
    assert not [name for name, text in files.items() if "/opt/multiclaw" in text or "/etc/multiclaw/" in text]


def test_the_topology_decides_keys_users_and_links(install, folder, tmp_path):
    """Each agent has its key among the adapter's, a user, and a sidecar that starts with the target."""
    install()
    files = written(tmp_path)
    keys = files["etc/systemd/system/multiclaw-adapter.service.d/keys.conf"]
    for name in ("orchestrator", "pm", "human-governor"):
        assert f"LoadCredential={name}.key:{folder}/keys/{name}.key\n" in keys
    assert {"u mc-orchestrator", "u mc-pm", "u multiclaw", "u multiclaw-watch"} == {
        line.partition(" - ")[0] for line in files["etc/sysusers.d/multiclaw.conf"].splitlines() if line[0] == "u"
    }
    wants = "etc/systemd/system/multiclaw.target.wants/"
    assert {name.removeprefix(wants): text for name, text in files.items() if name.startswith(wants)} == {
        "multiclaw-adapter.service": "../multiclaw-adapter.service",
        "multiclaw-adapter.socket": "../multiclaw-adapter.socket",
        "multiclaw-watch.service": "../multiclaw-watch.service",
        **{
            f"multiclaw-sidecar@{agent}.{kind}": f"../multiclaw-sidecar@.{kind}"
            for agent in AGENTS.split(",")
            for kind in ("service", "socket")
        },
    }


def test_only_orchestrators_are_open_to_the_watcher(install, folder, tmp_path):
    """The socket of each one's sidecar, and no other; when another agent takes the role, the old opening goes."""
    drop_in = "etc/systemd/system/multiclaw-sidecar@{}.socket.d/watch.conf"
    assert (
        "systemctl try-restart multiclaw-sidecar@orchestrator.socket" not in install().out
    )  # nothing runs below a root
    assert "SocketGroup=multiclaw-watch\nSocketMode=0660\n" in written(tmp_path)[drop_in.format("orchestrator")]
    assert drop_in.format("pm") not in written(tmp_path)
    path = folder / "multiclaw.toml"
    text = path.read_text().replace('role = "pm"', 'role = "swap"').replace('role = "orchestrator"', 'role = "pm"')
    path.write_text(text.replace('role = "swap"', 'role = "orchestrator"'))
    assert "systemctl restart multiclaw-sidecar@orchestrator.socket" in install().out
    assert drop_in.format("pm") in written(tmp_path)
    assert drop_in.format("orchestrator") not in written(tmp_path)


def test_backups_elsewhere_are_opened_to_the_adapter(install, folder, tmp_path):
    """The folder that `[backups]` names becomes writable for the adapter, also with odd characters and a way back in
    its name; another one follows with the next run, and one in the adapter's own folder needs nothing."""
    drop_in = "etc/systemd/system/multiclaw-adapter.service.d/backups.conf"
    path = folder / "multiclaw.toml"
    text = path.read_text()

    def opened(named: str) -> str | None:
        path.write_text(text.replace("[backups]\n", f"[backups]\nfolder = '{named}'\n"))
        assert install().status == 0
        return written(tmp_path).get(drop_in, "").partition("[Service]\n")[2]

    install()
    assert drop_in not in written(tmp_path)
    assert opened("/mnt/disk/multiclaw") == 'ReadWritePaths="-/mnt/disk/multiclaw"\n'
    assert opened('/mnt/my 100% "old\\disk"') == 'ReadWritePaths="-/mnt/my 100%% \\"old\\\\disk\\""\n'
    assert opened("../backups") == f'ReadWritePaths="-{tmp_path}/backups"\n'
    assert opened("/var/lib/multiclaw/adapter/more") == ""
    assert drop_in not in written(tmp_path)


def test_a_second_run_upgrades(install, folder, tmp_path):
    """What is as it should be is left alone; what another version or another topology left is put right."""
    install()
    before = written(tmp_path)
    assert "nothing was to be changed" in install().out
    wants = tmp_path / "root/etc/systemd/system/multiclaw.target.wants"
    (wants / "multiclaw-sidecar@gone.service").symlink_to("../multiclaw-sidecar@.service")
    (tmp_path / "root/etc/systemd/system/multiclaw-adapter.service").write_text("old")
    told = install().out
    assert "systemctl stop multiclaw-sidecar@gone.service" in told
    assert written(tmp_path) == before
    (wants / "multiclaw-agent@pm.service").symlink_to("../multiclaw-agent@.service")
    install()
    assert (wants / "multiclaw-agent@pm.service").is_symlink()


def test_uninstall_takes_all_of_it_and_no_more(install, folder, tmp_path):
    """Every file of ours goes, an administrator's own drop-in stays, and doing it twice is no error."""
    path = folder / "multiclaw.toml"
    path.write_text(path.read_text().replace("[backups]\n", "[backups]\nfolder = '/mnt/disk/multiclaw'\n"))
    install()
    own = tmp_path / "root/etc/systemd/system/multiclaw-adapter.service.d/own.conf"
    own.write_text("[Service]\n")
    assert install("--uninstall").status == 0
    assert list(written(tmp_path)) == [str(own.relative_to(tmp_path / "root"))]
    assert install("--uninstall").status == 0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("/var/lib/multiclaw", "/srv/state"), "paths.state is /srv/state"),
        (("/run/multiclaw", "/srv/run"), "paths.run is /srv/run"),
        (('keys = "keys"', 'keys = "/srv/keys"'), "paths.keys is /srv/keys"),
        (("[backups]\n", "[backups]\nfolder = '/hidden/backups'\n"), "backups.folder is /hidden/backups"),
        (("[agents.pm]", f"[agents.{'a' * 28}]\n[agents.pm]"), "more than 27 characters"),
    ],
)
def test_what_could_not_run_is_refused(install, folder, monkeypatch, tmp_path, change, word):
    """A configuration that the units cannot serve is refused with status 78 and what to do, before anything is made."""
    monkeypatch.setattr(units, "_HIDDEN", (Path("/hidden"),))
    path = folder / "multiclaw.toml"
    path.write_text(path.read_text().replace(*change))
    done = install()
    assert done.status == 78
    assert word in done.err
    assert written(tmp_path) == {}


def test_a_key_that_is_missing_is_named(install, folder, tmp_path):
    """A topology that has grown needs its keys first: without one the adapter could not start."""
    path = folder / "multiclaw.toml"
    path.write_text(path.read_text() + "\n[agents.new]\n")
    done = install()
    assert done.status == 78
    assert f"no key for 'new'; make it with: multiclaw init --dir {folder}" in done.err
    assert written(tmp_path) == {}


def test_what_services_cannot_read_is_refused(install, folder, monkeypatch, tmp_path):
    """A configuration closed to other users, and an interpreter in a home, are named with the way out."""
    (folder / "multiclaw.toml").chmod(0o600)
    assert f"chmod o+r {folder}/multiclaw.toml" in install().err
    (folder / "multiclaw.toml").chmod(0o644)
    monkeypatch.setattr(units, "_HIDDEN", (Path("/"),))
    done = install()
    assert done.status == 78
    assert "python3 -m venv /opt/multiclaw" in done.err
    assert written(tmp_path) == {}
