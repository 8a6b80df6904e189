"""Write the generated files beside this module."""

from pathlib import Path

from gpudiag.dashboards.files import files

for name, text in files().items():
    (Path(__file__).parent / "generated" / name).write_text(text, "utf-8")
