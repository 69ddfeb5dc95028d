"""What a package adds to hpsearch: an algorithm, a reward and a tracker."""
