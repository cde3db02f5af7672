# SPDX-License-Identifier: Apache-2.0
"""XLA_FLAGS: XLA's syntax, its meaning here, and errors only when the flags are for Ingot."""

import pytest

from ingot.support import flags, xla_flags
from ingot.support.diagnostics import FlagError


def test_every_setting_is_a_field():
    fields = set(xla_flags.XlaFlags.__dataclass_fields__)
    assert {name.removeprefix("xla_") for name in xla_flags._SETTINGS} == fields


def test_values_quotes_and_bare_booleans():
    parsed = xla_flags.parse(
        "--xla_dump_to='/tmp/my dumps'  --xla_dump_hlo_as_text "
        "--xla_dump_hlo_pass_re=.* --xla_disable_hlo_passes=cse,algsimp"
    )
    assert parsed == xla_flags.XlaFlags(
        dump_to="/tmp/my dumps",
        dump_hlo_as_text=True,
        dump_hlo_pass_re=".*",
        disable_hlo_passes=("cse", "algsimp"),
    )


def test_later_flag_replaces_earlier_one():
    text = "--xla_dump_hlo_as_text=true --xla_dump_hlo_as_text=0"
    assert not xla_flags.parse(text).dump_hlo_as_text


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("", ""),
        ("--xla_dump_to=/d", "/d"),
        ("--xla_dump_hlo_as_text", "-"),
        ("--xla_dump_hlo_as_text --xla_dump_to=/d", "/d"),
    ],
)
def test_format_without_folder_goes_to_standard_output(text, folder):
    assert xla_flags.parse(text).dump_folder == folder


def test_module_and_pass_filters():
    everything = xla_flags.parse("--xla_dump_to=/d")
    assert everything.dumps_module("anything")
    assert not everything.dumps_pass("dce")
    some = xla_flags.parse(
        "--xla_dump_to=/d --xla_dump_hlo_module_re=step --xla_dump_hlo_pass_re=c.e"
    )
    assert some.dumps_module("train_step")
    assert not some.dumps_module("predict")
    assert some.dumps_pass("cse")
    assert not some.dumps_pass("algsimp")


def test_flags_from_a_file(tmp_path):
    file = tmp_path / "flags"
    file.write_text("--xla_dump_to=/d\n--xla_dump_hlo_as_text\n")
    assert xla_flags.parse(str(file)).dump_hlo_as_text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("--xla_dump_to=/d --xla_dump_hlo_pas_re=x", "did you mean 'xla_dump_hlo_pass_re'?"),
        ("--xla_dump_to=/d --zzz", "leave --zzz out"),
        ("--xla_dump_hlo_pass_re=(", "regular expression"),
        ("--xla_dump_hlo_as_text=maybe", "true or false"),
        ("--xla_dump_to='/d", "cannot be split"),
        ("/no/such/file", "cannot be read"),
    ],
)
def test_errors_say_what_to_do(text, part):
    with pytest.raises(FlagError) as caught:
        xla_flags.parse(text)
    assert part in str(caught.value)


def test_flags_for_another_xla_are_left_alone():
    parsed = xla_flags.parse("--xla_backend_optimization_level=3 --xla_cpu_multi_thread_eigen=0")
    assert parsed == xla_flags.XlaFlags()


def test_ingot_dump_to_goes_first(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/xla --xla_dump_hlo_pass_re=x")
    assert xla_flags.current_xla_flags().dump_to == "/xla"
    with flags.override(flags.DUMP_TO, "/ingot"):
        assert xla_flags.current_xla_flags().dump_to == "/ingot"
        assert xla_flags.current_xla_flags().dump_hlo_pass_re == "x"


def test_reference_names_every_flag():
    page = xla_flags.markdown()
    assert all(f"`--{name}`" in page for name in xla_flags._SETTINGS)
    assert all(f"`--{name}`" in page for name in xla_flags._WITHOUT_EFFECT)
