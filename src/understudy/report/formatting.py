"""Numbers and names as reports write them: ``90.0% (95% CI 83.2–94.7)``."""

from understudy.maths.proportions import Share

UNKNOWN = "–"


def ci(share: Share) -> str:
    """``83.2–94.7``, in percent."""
    return f"{100 * share.low:.1f}–{100 * share.high:.1f}" if share.known else UNKNOWN


def percent_ci(share: Share) -> str:
    """``90.0% (95% CI 83.2–94.7)``."""
    return f"{share.estimate:.1%} (95% CI {ci(share)})" if share.known else UNKNOWN


def percent_range(share: Share) -> str:
    """``90.0% (83.2–94.7)``, for tables whose title says that it is a 95% interval."""
    return f"{share.estimate:.1%} ({ci(share)})" if share.known else UNKNOWN


def auc_ci(share: Share | None) -> str:
    """``0.81 (95% CI 0.74–0.88)``."""
    return UNKNOWN if share is None or not share.known else f"{share.estimate:.2f} (95% CI {auc_range(share)})"


def auc_range(share: Share) -> str:
    return f"{share.low:.2f}–{share.high:.2f}"


def p_text(p_value: float) -> str:
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def shorten(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def first_names(names: list[str], most: int = 5) -> str:
    """The first few, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
