"""YAML read node by node, so that every complaint names the file, the line and the key."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import yaml

from gpudiag.agent import files, units
from gpudiag.probes.errors import UsageError

_NULL = "tag:yaml.org,2002:null"


class Item:
    """One node of a YAML file. Aliases are shared nodes, never copies, so they cannot explode."""

    def __init__(self, file: str, node: yaml.Node, path: str = "") -> None:
        self.file = file
        self.path = path
        self._node = node

    def error(self, message: str) -> UsageError:
        """The complaint about this node, to be raised: `file:line: key: message`."""
        key = self.path or "top level"
        return UsageError(f"{self.file}:{self._node.start_mark.line + 1}: {key}: {message}")

    def mapping(
        self, required: Collection[str], optional: Collection[str] | None = None
    ) -> dict[str, Item]:
        """The values by key, in file order. `optional` None lets any further key stand."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self.error("must be a mapping of keys")
        found: dict[str, Item] = {}
        for key, value in self._node.value:
            name = str(key.value)
            here = Item(self.file, value, f"{self.path}.{name}".lstrip("."))
            at_key = Item(self.file, key, here.path)
            if name in found:
                raise at_key.error("stands here twice")
            if optional is not None and name not in required and name not in optional:
                known = ", ".join(sorted({*required, *optional}))
                raise at_key.error(f"no such key; there are {known}")
            found[name] = here
        if missing := [name for name in required if name not in found]:
            raise self.error(f"lacks {', '.join(missing)}")
        return found

    def items(self) -> list[Item]:
        """The elements of a list; nothing written after the key is an empty list."""
        if self._node.tag == _NULL:
            return []
        if not isinstance(self._node, yaml.SequenceNode):
            raise self.error("must be a list")
        return [
            Item(self.file, node, f"{self.path}[{index}]")
            for index, node in enumerate(self._node.value)
        ]

    def one_or_many(self) -> list[Item]:
        """The elements of a list, or a single text as a list of one."""
        return [self] if isinstance(self._node, yaml.ScalarNode) else self.items()

    def text(self) -> str:
        """A scalar as it was written: `0`, `true` and `1e9` stay text."""
        if not isinstance(self._node, yaml.ScalarNode):
            raise self.error("must be a single value")
        return str(self._node.value)

    def seconds(self) -> float:
        """A duration with its unit, `1m30s`; only zero may stand without one."""
        text = self.text()
        try:
            return 0.0 if text == "0" else units.seconds(text)
        except UsageError as error:
            raise self.error(str(error)) from error


def read(path: Path) -> Item:
    """The top of the YAML file at `path`; raises `UsageError` if it cannot be read or parsed."""
    return parse(files.text(path), str(path))


def parse(text: str, file: str) -> Item:
    """The top node of YAML `text`; `file` stands for it in complaints."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{file}:{line}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{file}: not valid YAML: {error}") from error
    if node is None:
        raise UsageError(f"{file}:1: is empty")
    return Item(file, node)
