"""The command line as a whole: what is told of words that mean nothing, and how help looks."""

from __future__ import annotations

import pytest

from corral.cli.main import COMMANDS, main

pytestmark = pytest.mark.usefixtures("own_directories")


@pytest.mark.parametrize(
    ("word", "hint"), [("hoks", "did you mean hooks?"), ("/src", "corral --help lists the commands")]
)
def test_an_unknown_command_is_wrong_usage_with_the_nearest_one(word, hint, capsys):
    assert main([word]) == 2
    assert capsys.readouterr().err == f"corral: unknown command {word!r}\n  {hint}\n"


def test_an_unknown_provider_is_wrong_usage_everywhere(capsys):
    for words in (["ps", "-p", "nobody"], ["usage", "-p", "nobody"], ["show", "nobody:1"]):
        assert main(words) == 2, words
        assert "no provider named 'nobody'" in capsys.readouterr().err


def test_help_lists_every_command_on_one_line(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = lines[lines.index("commands:") + 1 :][: len(COMMANDS)]
    assert [line.split(maxsplit=1) for line in listed] == [list(command) for command in COMMANDS.items()]


@pytest.mark.parametrize("command", ["serve", "demo"])
@pytest.mark.parametrize("text", ["-1", "65536", "abc", "", "8.5", "٣", "9" * 5000])
def test_what_can_be_no_port_is_wrong_usage(command, text, capsys):
    with pytest.raises(SystemExit) as left:
        main([command, f"--port={text}"])
    assert left.value.code == 2
    assert "is not a port: a number from 1 to 65535, or 0 for any free one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["show"], ["resume"], ["attach"], ["kill"], ["explain"], ["usage", "--explain"], ["usage", "--by"], ["sql"],
        ["terminals", "--forget"], ["run"], ["pid"], ["ps", "--state"], ["hooks", "install"], ["doctor"], ["url"], [],
    ],
)  # fmt: skip
@pytest.mark.parametrize("odd", ["x" * 5000, "kimi-cli:" + "y " * 2500, "red\x1b[31m\nline\x9b2J\u202e"])
def test_odd_words_are_told_short_and_printable(words, odd, capsys):
    try:
        code = main([*words, odd])
    except SystemExit as left:  # argparse
        code = left.code
    told = capsys.readouterr().err
    assert code in (1, 2, 4)
    assert odd[:3] in told
    assert len(told) < 2500
    assert all(line.isprintable() for line in told.splitlines())


def test_the_reason_after_an_endless_word_is_still_told(capsys):
    assert main(["show", "x" * 5000]) == 1
    told = capsys.readouterr().err.splitlines()[0]
    assert told.startswith("corral: 'xxx") and told.endswith("xxx' is not a session id (identity_invalid)")
    assert len(told) < 250
