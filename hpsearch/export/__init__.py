"""Bundles: trained players as folders that stand alone."""
