"""The model server: found or started, asked in either dialect, watched, and reached through litellm. Knows no slide."""
