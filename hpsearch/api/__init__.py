"""What users do with studies and players, from Python and by commands."""

import warnings

# tqdm's, in a notebook without ipywidgets: Optuna could draw bars with it, which hpsearch does not.
warnings.filterwarnings("ignore", message="IProgress not found")
