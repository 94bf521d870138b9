"""Measures servers of the Durable Streams protocol through their HTTP surface."""
