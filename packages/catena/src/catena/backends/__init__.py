"""The only importers of vendor SDKs: each module adapts one of them to a port."""
