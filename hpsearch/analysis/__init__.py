"""What is computed about trained players and finished studies, and told in words."""
