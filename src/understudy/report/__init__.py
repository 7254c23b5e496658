"""The pages that runs, comparisons and audits leave behind."""
