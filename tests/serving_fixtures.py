"""The real server of the tests: one `transformers serve` with the embedded model, started when first asked for."""

from collections.abc import Callable, Iterator

import pytest

from pipeline import models, servers
from pipeline.errors import DeckError
from pipeline.servers import Server


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[[], Server]]:
    """served() -> the real server; started at the first call, stopped at the end of the session."""
    running: list[Server] = []

    def start() -> Server:
        if not running:
            try:
                running.append(servers.begin_transformers(models.embedded_folder()).ready())
            except DeckError as error:
                pytest.exit(f"the tests need the real server: {error}", returncode=error.exit_code)
        return running[0]

    yield start
    for server in running:
        server.close()


@pytest.fixture(scope="session")
def real_server(served: Callable[[], Server]) -> Server:
    return served()
