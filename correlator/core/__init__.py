"""The shared vocabulary: names, dtypes, values and the fault catalogue. Imports nothing else of ours."""
