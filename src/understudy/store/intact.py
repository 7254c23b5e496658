from understudy.store.files import check_digests as check_seal
from understudy.store.files import with_digests as sealed

__all__ = ["check_seal", "sealed"]
