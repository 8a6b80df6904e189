import io

from rich.text import Text

from gpudiag.agent.commands.output import Screen, harmless


def shown(text, **options):
    out = io.StringIO()
    Screen(file=out, **options).print(Text(text, style="red"), soft_wrap=True)
    return out.getvalue()


def test_the_name_of_a_process_cannot_steer_the_terminal():
    assert shown("named \x1b[2J\x9b1m\r, \ud800") == "named \ufffd[2J\ufffd1m, \ufffd\n"


def test_colours_of_our_own_remain():
    assert (
        shown("hot", force_terminal=True, color_system="standard", no_color=False)
        == "\x1b[31mhot\x1b[0m\n"
    )


def test_letters_of_all_languages_and_their_spaces_remain():
    text = "Gr\u00f6\u00dfe 5\u00a0ms \u4e00\n\u03b1"
    assert harmless(text) == text
    assert harmless("a\u202eb") == "a\ufffdb"
