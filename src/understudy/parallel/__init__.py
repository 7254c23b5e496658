"""Passes over a pool that is a folder of Parquet shards, one shard at a time, wherever an executor runs them."""
