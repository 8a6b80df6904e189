"""One server to be asked: where, what, and by what measure its answer is judged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from gpudiag.probes.serving.canary_api import Api
from gpudiag.probes.serving.compare import Measure

CHARACTERS_PER_TOKEN = 3
"""On the safe side: English has four or more, JSON and code about three."""


@dataclass(frozen=True, slots=True)
class Target:
    """A canary of one server, as configured; see `deploy/gpudiag.yaml` for each field.

    `body` is laid over the API's own. `api_key` is `@/path` or `$NAME`, never the key itself.
    `measure` says how answers are compared and `tolerance` how much below 1 they may be alike.
    """

    name: str
    url: str
    api: Api
    measure: Measure
    tolerance: float
    prompt: str = ""
    model: str = ""
    max_tokens: int = 24
    stream: bool = False
    timeout: float = 20.0
    api_key: str = ""
    expect: str = ""
    baseline: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)

    def path(self, model: str) -> str:
        """Where the request goes, below the address of the server."""
        path = self.api.stream_path if self.stream and self.api.stream_path else self.api.path
        return path.replace("$model", quote(model, safe=""))

    def request(self, model: str) -> bytes:
        """The request's body as JSON."""
        whole = merged(json.loads(self.api.body), self.body)
        if self.stream:
            whole = merged(whole, json.loads(self.api.stream))
        return json.dumps(filled(whole, self._values(model))).encode()

    def digest(self) -> str:
        """Changes with what is asked, so that answers to another question are not compared."""
        asked = self.request("").decode() + self.path("") + " ".join(self.api.answer)
        return hashlib.sha256(asked.encode()).hexdigest()[:16]

    def cost(self) -> int:
        """Tokens that one request may take, estimated from its length."""
        written = self.max_tokens if self.api.gives == "text" else 0
        return len(self.request("")) // CHARACTERS_PER_TOKEN + written

    def _values(self, model: str) -> dict[str, str | int]:
        return {"$prompt": self.prompt, "$model": model, "$max_tokens": self.max_tokens}


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both as one: what `over` names replaces, except that mappings are merged in turn."""
    whole = dict(under)
    for key, value in over.items():
        below = whole.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        whole[key] = merged(below, value) if both else value  # type: ignore[arg-type]
    return whole


def filled(template: Any, values: Mapping[str, str | int]) -> Any:
    """The template with its words filled in; a text that is only `$max_tokens` becomes a number."""
    if isinstance(template, Mapping):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if template in values:
        return values[template]
    for word, value in values.items():
        template = template.replace(word, str(value))
    return template
