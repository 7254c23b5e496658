"""``us.audit``: how good are these labels? Measured on gold before any training."""

from understudy.audit.audit import audit
from understudy.audit.result import Audit, Expectation
from understudy.audit.terminal import print_audit

__all__ = ["Audit", "Expectation", "audit", "print_audit"]
