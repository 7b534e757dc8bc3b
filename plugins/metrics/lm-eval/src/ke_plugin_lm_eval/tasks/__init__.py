"""Tasks of this package, as files of lm-evaluation-harness. Their texts were written for this package."""
