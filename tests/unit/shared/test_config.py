"""The configuration file: faults name the key and the remedy, the environment overrides, relations are checked."""

from pathlib import Path

import pytest

from shared.config import Config, ConfigurationFault, check_socket_path, load

MINIMAL = '[agents.pm]\nrole = "pm"\n[agents.qa]\n[channels.product]\nmembers = ["pm", "qa", "adapter"]\n'


def read(folder: Path, text: str = MINIMAL, **environ: str) -> Config:
    """The configuration of a file with `text`."""
    (folder / "multiclaw.toml").write_text(text)
    return load(folder / "multiclaw.toml", environ)


def fault(folder: Path, text: str, **environ: str) -> str:
    """What reading `text` complains of."""
    with pytest.raises(ConfigurationFault) as caught:
        read(folder, text, **environ)
    return str(caught.value)


def test_a_minimal_file_has_the_fixed_places(tmp_path: Path) -> None:
    """Folders and sockets stand where tools expect them, absolute, beside the file."""
    config = read(tmp_path)
    assert config.adapter_store == tmp_path / "state/adapter/store.db"
    assert config.adapter_socket == tmp_path / "run/adapter.sock"
    assert config.sidecar_socket("qa") == tmp_path / "run/sidecar-qa.sock"
    assert config.token_file("qa") == tmp_path / "state/sidecar-qa/token"
    assert config.channels["product"].members == ["pm", "qa", "adapter"]
    assert config.agents["qa"].role == "execution"


def test_rates_have_defaults_that_a_file_replaces_one_by_one(tmp_path: Path) -> None:
    """A table for one class leaves the others, and a class of the deployment's own joins them."""
    added = "[rates.normal]\nper_second = 7\nburst = 9\n[rates.nightly]\nper_second = 1\nburst = 1\n"
    config = read(tmp_path, MINIMAL + added)
    assert set(config.rate_classes) == {"normal", "critical", "progress", "nightly"}
    assert (config.rate_classes["normal"].per_second, config.rate_classes["normal"].burst) == (7, 9)
    assert config.rate_classes["critical"] == read(tmp_path).rate_classes["critical"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("[rates.normal]\nper_second = 0\nburst = 1", "rates.normal.per_second"),
        ("[rates.normal]\nper_second = 1", "rates.normal.burst"),
        ("[rates.normal]\nper_second = 1\nburts = 1\nburst = 1", "Did you mean 'burst'"),
        ("[rates.Normal]\nper_second = 1\nburst = 1", "is not a name"),
    ],
)
def test_a_rate_that_is_none_is_a_fault(tmp_path: Path, extra: str, words: str) -> None:
    """The fault says which key, and what was probably meant."""
    assert words in fault(tmp_path, MINIMAL + extra)


def test_a_missing_file_names_the_command(tmp_path: Path) -> None:
    """Without a file the fault says how to make one."""
    with pytest.raises(ConfigurationFault, match=f"multiclaw init --dir {tmp_path}"):
        load(tmp_path / "multiclaw.toml", {})


@pytest.mark.parametrize("raw", [b"[agents", b"\xff\xfe", b"\xef\xbb\xbf[agents]", b"a = 1\na = 2\n"])
def test_an_unreadable_file_is_a_fault(tmp_path: Path, raw: bytes) -> None:
    """Broken TOML, wrong encodings and folders in the file's place are configuration faults, not tracebacks."""
    (tmp_path / "multiclaw.toml").write_bytes(raw)
    with pytest.raises(ConfigurationFault, match="cannot be read"):
        load(tmp_path / "multiclaw.toml", {})
    with pytest.raises(ConfigurationFault, match="cannot be read"):
        load(tmp_path, {})


@pytest.mark.parametrize(
    ("extra", "key", "near"),
    [
        ("[limits]\nqueu_max = 5", "limits.queu_max", "queue_max"),
        ("[agents.dev]\nprot = 1", "agents.dev.prot", "port"),
        ("[channels.x]\nmember = []\nmembers = []", "channels.x.member", "members"),
        ("[limit]\nqueue_max = 5", "limit", "limits"),
        ("[path]\n", "path", "paths"),
        ("[retention]\nmessage_day = 5", "retention.message_day", "message_days"),
        ("[retention.channels.product]\ncontract_day = 5", "retention.channels.product.contract_day", "contract_days"),
        ("[escalation]\nrepeat = 5", "escalation.repeat", "repeats"),
        ("[deployment]\ndevelopement = true", "deployment.developement", "development"),
    ],
)
def test_unknown_keys_name_the_nearest_known(tmp_path: Path, extra: str, key: str, near: str) -> None:
    """A misspelt key is an error with its place and the key that was probably meant."""
    text = fault(tmp_path, MINIMAL + extra)
    assert f"'{key}'" in text
    assert f"Did you mean '{near}'?" in text


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[agents."QA"]\n[channels]', "'QA' is not a name"),
        ('[agents."a b"]\n[channels]', "'a b' is not a name"),
        ('[agents."qa\\n"]\n[channels]', "is not a name"),
        ('[agents."q\u0430"]\n[channels]', "is not a name"),  # a Cyrillic letter
        ('[agents."' + "a" * 64 + '"]\n[channels]', "is not a name"),
        ('[agents]\n[channels."@x"]\nmembers = []', "'@x' is not a name"),
        ("[agents.adapter]\n[channels]", "'adapter' is reserved"),
        ("[agents.human-governor]\n[channels]", "'human-governor' is reserved"),
        (MINIMAL + '[channels.x]\nmembers = ["qaa"]', "unknown member 'qaa'. Did you mean 'qa'?"),
        (MINIMAL + '[channels.x]\nmembers = ["pm", "pm"]', "names a member twice"),
        ("[channels]", "agents: Field required"),
        (MINIMAL + "[limits]\nqueue_max = 0", "limits.queue_max"),
        (MINIMAL + '[escalation]\nwebhook = "ftp://host/x"', "a webhook is an http:// or https:// URL"),
        (MINIMAL + '[escalation]\nwebhook = "http://"', "a webhook is an http:// or https:// URL"),
        (MINIMAL + '[escalation]\nwebhook = "http://host:x/"', "escalation.webhook"),
        (MINIMAL + "[escalation]\nabsence_seconds = 700", "must not be under absence_seconds"),
        (MINIMAL + '[escalation]\ncommand = "mail"', "escalation.command"),
        (MINIMAL + '[escalation]\ncommand = [""]', "escalation.command"),
        (MINIMAL + '[limits]\nqueue_max = "many"', "limits.queue_max"),
        (MINIMAL + "[limits]\nlease_seconds = nan", "limits.lease_seconds"),
        (MINIMAL + "[limits]\nlink_timeout_seconds = inf", "limits.link_timeout_seconds"),
        (MINIMAL + "[limits]\nretry_base_seconds = 9\nretry_cap_seconds = 8", "retry_cap_seconds must not be under"),
        (MINIMAL + "[limits]\nbreaker_reset_seconds = 31", "breaker_reset_cap_seconds must not be under"),
        (MINIMAL + "[retention]\nmessage_days = 0.06", "retention.message_days: 0.06 days are not between"),
        (MINIMAL + '[retention]\ncontract_days = "always"', "retention.contract_days"),
        (MINIMAL + "[retention]\nmessage_days = inf", "retention.message_days"),
        (MINIMAL + "[retention]\ncheck_seconds = 3600", "retention.check_seconds"),
        (MINIMAL + "[retention]\nclock_trust_hours = 1", "retention.clock_trust_hours"),
        (MINIMAL + "[retention.channels.produkt]", "no channel 'produkt'. Did you mean 'product'?"),
        (MINIMAL + "[retention]\nmessage_days = 14", "outbox_days_max (14) must be under the shortest retention (14"),
        (MINIMAL + '[retention.channels."@qa"]\nmessage_days = 2', "must be under the shortest retention (2"),
        (MINIMAL + "[limits]\nenvelope_bytes_max = 8388608", "limits.envelope_bytes_max"),  # a whole batch
    ],
)
def test_bad_values_and_relations_are_faults(tmp_path: Path, text: str, word: str) -> None:
    """Bad names, reserved names, unknown members, values out of bounds and broken relations are told apart."""
    assert word in fault(tmp_path, text)


def test_the_environment_overrides_with_types(tmp_path: Path) -> None:
    """`MULTICLAW_TABLE__KEY` replaces a value, read as TOML where it is TOML, and is checked like the file."""
    config = read(
        tmp_path,
        MINIMAL,
        MULTICLAW_LIMITS__QUEUE_MAX="7",
        MULTICLAW_LIMITS__LEASE_SECONDS="0.5",
        MULTICLAW_DEPLOYMENT__DEVELOPMENT="true",
        MULTICLAW_DEPLOYMENT__NAME="staging",
        MULTICLAW_AGENTS__QA__PORT="4711",
        MULTICLAW_CHANNELS__PRODUCT__MEMBERS='["qa"]',
        MULTICLAW_PARENT="1",
        OTHER__LIMITS="9",
    )
    assert (config.limits.queue_max, config.limits.lease_seconds) == (7, 0.5)
    assert (config.deployment.development, config.deployment.name) == (True, "staging")
    assert config.agents["qa"].port == 4711
    assert config.channels["product"].members == ["qa"]


def test_bad_overrides_are_faults(tmp_path: Path) -> None:
    """An override that is unknown, of a wrong type, or reaches into a value is a fault that names it."""
    assert "limits.queue_max" in fault(tmp_path, MINIMAL, MULTICLAW_LIMITS__QUEUE_MAX="many")
    assert "Did you mean 'queue_max'" in fault(tmp_path, MINIMAL, MULTICLAW_LIMITS__QUEU_MAX="1")
    variable = "MULTICLAW_LIMITS__QUEUE_MAX__X"
    assert variable in fault(tmp_path, MINIMAL + "[limits]\nqueue_max = 5", **{variable: "1"})
    assert "limits" in fault(tmp_path, "limits = 3\n" + MINIMAL, MULTICLAW_LIMITS__QUEUE_MAX="1")


def test_systemd_folders_replace_those_of_the_file(tmp_path: Path) -> None:
    """The folders that systemd makes for a unit win over the file; an empty variable is none."""
    config = read(
        tmp_path, MINIMAL, STATE_DIRECTORY="/var/lib/mc", RUNTIME_DIRECTORY="/run/mc", CREDENTIALS_DIRECTORY=""
    )
    assert config.adapter_store == Path("/var/lib/mc/adapter/store.db")
    assert config.adapter_socket == Path("/run/mc/adapter.sock")
    assert config.paths.keys == tmp_path / "keys"
    assert read(tmp_path, MINIMAL, CREDENTIALS_DIRECTORY="/run/c").paths.keys == Path("/run/c")


def test_socket_paths_end_at_107_bytes() -> None:
    """107 bytes pass and 108 do not; what counts is bytes, not characters, and the fault tells the length."""
    check_socket_path(Path("/" + "a" * 106))
    with pytest.raises(ConfigurationFault, match="108 bytes, and the limit is 107"):
        check_socket_path(Path("/" + "a" * 107))
    check_socket_path(Path("/" + "é" * 53))
    with pytest.raises(ConfigurationFault, match="109 bytes"):
        check_socket_path(Path("/" + "é" * 54))


def test_each_channel_keeps_for_as_long_as_it_says(tmp_path: Path) -> None:
    """Direct channels too; what a channel does not say is said for all, and "forever" is no number of days."""
    lines = ("[retention]", "contract_days = 400", '[retention.channels."@qa"]', 'message_days = "forever"')
    retention = read(tmp_path, MINIMAL + "\n".join(lines)).retention
    assert (retention.days("product"), retention.days("@qa")) == ((30, 400), ("forever", 400))
    assert retention.shortest_days == 30
    assert read(tmp_path).retention.days("product") == (30, "forever")


def test_the_outbox_may_hold_what_is_kept_for_ever(tmp_path: Path) -> None:
    """Where nothing is forgotten, no age is too old; 90 minutes are enough where an outbox holds less."""
    lines = ("[retention]", 'message_days = "forever"', "[limits]", "outbox_days_max = 1000000")
    assert read(tmp_path, MINIMAL + "\n".join(lines)).limits.outbox_days_max == 1_000_000
    lines = ("[retention]", "message_days = 0.0625", "[limits]", "outbox_days_max = 0.06")
    assert read(tmp_path, MINIMAL + "\n".join(lines)).retention.shortest_days == 0.0625
