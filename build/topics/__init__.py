"""One script per topic, each with the list of its slides. build/decks.py says where in a deck they stand."""
