"""What a line means: dialects, prefixes, timestamps, multi-line records, dumps. Never what caused what."""

if not __name__.startswith("correlator."):
    raise ImportError("import correlator.parsers: the bare name would load every class a second time")
