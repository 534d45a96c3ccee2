"""Files: read with a limit, because others may have written them, and written whole or not at all."""
