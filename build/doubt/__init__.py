"""Trying to refute the deck: damage to captures, mutants of oracles. Nothing of it is needed to build or show it."""
