"""The generated rule files, shipped as data."""
