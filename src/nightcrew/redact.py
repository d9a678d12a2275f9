"""Secrets out of any text: values we know, and the shapes of providers' keys (law 14); for judges also what names an author.

Pure: who knows the values tells them.
What a run must execute word for word (a command line, a branch) is never passed through here; config keeps secrets out of it.
"""

import json
import re
from collections.abc import Iterable

REDACTED = "[redacted]"
SHORTEST = 6  # a shorter value (a port, a yes) occurs everywhere by chance; blanking it would eat the text and hide nothing

# A literal that must occur (most texts hold none of them), and the shape around it. No possessive: early 3.11 errs.
_SHAPES = {
    "sk-": r"sk-(?<![\w-]sk-)[\w-]{16,}",
    "gh": r"gh[oprsu]_(?<!\wgh[oprsu]_)[A-Za-z0-9]{20,}",
    "github_pat_": r"github_pat_\w{20,}",
    "glpat-": r"glpat-[\w-]{16,}",
    "AIza": r"AIza[\w-]{30,}",
    "AKIA": r"AKIA(?<!\wAKIA)[0-9A-Z]{16}",
    "xox": r"xox[abeoprs]-[\w-]{10,}",
    "npm_": r"npm_(?<!\wnpm_)[A-Za-z0-9]{30,}",
    "eyJ": r"eyJ(?<![\w-]eyJ)[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",
    "earer ": r"(?<=earer )[\w.~+/-]{16,}=*",
    "uthorization: ": r"(?<=uthorization: )(?:[Bb]asic|[Tt]oken) [\w.~+/-]{6,}=*",
    "://": r"(?<=://)[^\s/:@\"']{0,64}:[^\s/@\"']{6,256}(?=@)",
    # With its end, whatever is between; cut off before its end, as far as it looks like one.
    "PRIVATE KEY-----": r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
    r"(?:[^-]*(?:-(?!----)[^-]*)*-----END [A-Z ]{0,30}PRIVATE KEY-----|[A-Za-z0-9+/=\s\\]*)",
}


# The words that tell which program or model wrote something, besides a roster's own.
VENDORS = "aider anthropic chatgpt claude codex copilot deepseek gemini gpt-3 gpt-4 gpt-5 grok mistral openai opencode qwen"
NAMELESS = "an-agent"  # what stands in the place of such a word
TRAILER = re.compile(r"^[^\w\n]*(?:[\w-]+-by:|generated (?:with|by)\b).*\n?", re.IGNORECASE | re.MULTILINE)


class Redactor:
    """Takes known `values` (of at least `SHORTEST` characters) and the shapes of keys out of texts. Applying it twice changes nothing more."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Keep each value, as it is and as JSON writes it; the longest first, so that a part never hides the whole."""
        known = {form for value in {value.strip() for value in values} for form in (value, json.dumps(value)[1:-1])}
        self._values = sorted((v for v in known if len(v) >= SHORTEST and v not in REDACTED), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, self._values)))

    def text(self, text: str) -> str:
        """`text` without secrets."""
        if any(value in text for value in self._values):
            text = self._known.sub(REDACTED, text)
        before = ""
        for _ in range(8):  # what stood beside a secret may be seen as one, now that it is gone
            if text == before:
                break
            before = text
            for literal, shape in _SHAPES.items():
                if literal in text:
                    text = re.sub(shape, REDACTED, text, flags=re.ASCII)
        return text

    def bytes(self, data: bytes) -> bytes:
        """The same for bytes of any kind; what is not UTF-8 stays as it is."""
        before = data.decode("utf-8", "surrogateescape")
        after = self.text(before)
        return data if after is before else after.encode("utf-8", "surrogateescape")


def names(roster: Iterable[str] = (), task: str = "") -> re.Pattern[str]:
    """What finds vendors' words and a roster's own (one of less than four letters occurs everywhere by chance), but none of the task's."""
    words = {word.lower() for word in (*roster, *VENDORS.split()) if len(word) > 3 and word.lower() not in task.lower()}
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(map(re.escape, sorted(words, reverse=True)))})(?![a-z0-9])", re.IGNORECASE)


def nameless(text: str, named: re.Pattern[str]) -> str:
    """Prose that judges read, without its trailers ("…-by: …") and without what `named` finds."""
    return named.sub(NAMELESS, TRAILER.sub("", text))
