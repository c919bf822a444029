"""Data sets, where they come from, and how they are divided over clients."""
