"""Reconciled labels: the labels of several sources combined into one, with weights fitted on gold."""
