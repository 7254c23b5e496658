"""Counts of what is served: as Prometheus reads them, and for the page."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

#: Seconds.
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
# Requests over which the page shows shares and latencies.
_LAST = 5_000


class LiveFigures:
    def __init__(self) -> None:
        #: By path and status; by who answered; by why the teacher did not.
        self.requests: Counter[tuple[str, int]] = Counter()
        self.rows: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.deferred = self.reloads = 0
        self._buckets, self._seconds = [0] * (len(BUCKETS) + 1), 0.0
        self._last: deque[tuple[float, int, int]] = deque(maxlen=_LAST)

    def answered(self, seconds: float, by: Counter[str], deferred: int, failures: Counter[str]) -> None:
        """A request whose rows were predicted."""
        self.rows += by
        self.failures += failures
        self.deferred += deferred
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds
        self._last.append((seconds, by.total(), deferred))

    def recent(self) -> dict[str, float]:
        """Share deferred, and latencies in milliseconds, over the last requests."""
        rows, deferred = (sum(each[place] for each in self._last) for place in (1, 2))
        times = sorted(each[0] for each in self._last) or [0.0]
        p50, p99 = (times[min(len(times) - 1, int(len(times) * part))] * 1000 for part in (0.5, 0.99))
        return {"rows": rows, "share": deferred / max(rows, 1), "p50": p50, "p99": p99, "requests": len(self._last)}

    def prometheus(self, gauges: Mapping[str, float], version: str) -> Iterator[str]:
        """Its lines. ``gauges``: further values, by name."""
        counters: dict[str, Any] = {
            "requests_total": {f'path="{path}",status="{status}"': n for (path, status), n in self.requests.items()},
            "rows_total": {f'answered_by="{who}"': n for who, n in self.rows.items()},
            "teacher_failures_total": {f'reason="{why}"': n for why, n in self.failures.items()},
            "rows_deferred_total": {"": self.deferred},
            "reloads_total": {"": self.reloads},
        }
        for name, values in counters.items():
            yield f"# TYPE understudy_{name} counter"
            yield from (f"understudy_{name}{{{labels}}} {n}".replace("{}", "") for labels, n in values.items())
        yield "# TYPE understudy_request_seconds histogram"
        below = 0
        for bound, count in zip((*BUCKETS, "+Inf"), self._buckets, strict=True):
            below += count
            yield f'understudy_request_seconds_bucket{{le="{bound}"}} {below}'
        yield f"understudy_request_seconds_sum {self._seconds:.6f}"
        yield f"understudy_request_seconds_count {below}"
        for name, value in ({**gauges} | {f'model_info{{version="{version}"}}': 1}).items():
            yield f"# TYPE understudy_{name.partition('{')[0]} gauge"
            yield f"understudy_{name} {value}"
