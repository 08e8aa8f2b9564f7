"""The model: found, verified, kept, loaded, and taken apart. Knows no server and no slide."""
