from gpudiag.probes.catalog import symptoms
from gpudiag.runbooks.generate import PAGE, filled


def test_the_page_is_what_the_catalogue_makes_of_it() -> None:
    page = PAGE.read_text("utf-8")
    assert page == filled(page), "run: python -m gpudiag.runbooks.generate"


def test_every_cause_of_gpu_xid_has_a_section() -> None:
    headings = {line[4:] for line in PAGE.read_text("utf-8").splitlines() if line[:4] == "### "}
    assert headings == set(symptoms()["gpu-xid"].causes)


def test_what_is_written_by_hand_stays() -> None:
    page = "above\n<!-- codes -->\nold\n<!-- /codes -->\nbelow\n"
    made = filled(page)
    assert made.startswith("above\n<!-- codes -->\n\n### xid-1\n")
    assert made.endswith("<!-- /codes -->\nbelow\n")
    assert "\nold\n" not in made
