from tests.bench.conftest import experiment_file  # noqa: F401
from tests.datasets.conftest import forbid, site  # noqa: F401
