from understudy.store.settings import fingerprint

__all__ = ["fingerprint"]
