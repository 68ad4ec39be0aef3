"""Fixtures of the store's tests."""

from tests.stores import database_url, store

__all__ = ["database_url", "store"]
