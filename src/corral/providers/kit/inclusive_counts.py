"""Token counts as OpenAI-like servers give them: cached input within the input, reasoning within the output."""

from __future__ import annotations

from msgspec import Struct

from corral.model.usage import TokenUsage
from corral.providers.kit.usage_batch import Gathered

_MOST_TOKENS = 1 << 40
"""More than any request has: a count beyond it is damage."""


class InclusiveCounts(Struct, frozen=True, gc=False):
    """As a log has them; 0 for what it does not name."""

    input: int
    output: int
    cached: int
    thoughts: int
    total: int

    @property
    def is_known(self) -> bool:
        """False where the model's server named no tokens, or only their sum."""
        return bool(self.input or self.output or self.cached or self.thoughts)

    def check(self, found: Gathered) -> bool:
        """Whether a request can have these. If not they are skipped; what contradicts itself is noted."""
        counts = (self.input, self.output, self.cached, self.thoughts, self.total)
        if min(counts) < 0 or max(counts) > _MOST_TOKENS:
            found.skip(found.offset, "a token count that no request can have")
            return False
        if self.cached > self.input > 0:
            found.skip(found.offset, "counted, but it names more cached input than input")
        if self.thoughts > self.output and not self._is_beside:
            found.skip(found.offset, "counted, but it names more reasoning than output")
        return True

    def to_tokens(self) -> TokenUsage:
        """Disjoint. Contradictions are cut to what fits; cached input without any input is all of it."""
        whole = self.input or self.cached
        cached = min(self.cached, whole)
        if self._is_beside:
            return TokenUsage(input=whole - cached, cache_read=cached, output=self.output, reasoning=self.thoughts)
        reasoning = min(self.thoughts, self.output)
        return TokenUsage(input=whole - cached, cache_read=cached, output=self.output - reasoning, reasoning=reasoning)

    @property
    def _is_beside(self) -> bool:
        """Gemini's own servers count reasoning beside the output; then only the recorded sum adds up so."""
        return self.thoughts > 0 and self.total == (self.input or self.cached) + self.output + self.thoughts
