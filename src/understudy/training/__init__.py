"""Training a student: options, session, fit, evaluation, checkpoints, run."""
