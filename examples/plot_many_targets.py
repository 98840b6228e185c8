"""
Many real targets: spectra
==========================

Spectra, voxels of a brain, gene expressions: hundreds of targets that a few hidden causes explain.
`SpectralRegressorCV` finds how many.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

from lrml import SpectralRegressorCV

# %%
# Three substances, each with its own spectrum. Their concentrations depend on 40 process variables, and the
# measured spectra are noisy.

random = np.random.default_rng(0)
waves = np.linspace(400, 700, 150)
pure = np.array(
    [np.exp(-(((waves - centre) / width) ** 2)) for centre, width in [(470, 30), (540, 45), (620, 25)]]
)
mixing = random.standard_normal((40, 3)) / 6
X, X_test = random.standard_normal((120, 40)), random.standard_normal((1000, 40))
Y = X @ mixing @ pure + 0.5 * random.standard_normal((120, 150))
truth = X_test @ mixing @ pure

# %%
# Relative error of the noiseless test spectra: ridge regression fits each wavelength by itself, the search
# lets them share what they know.

ridge = RidgeCV(alphas=np.logspace(-2, 4, 25)).fit(X, Y)
search = SpectralRegressorCV(random_state=0).fit(X, Y)
for model in (ridge, search):
    error = np.linalg.norm(model.predict(X_test) - truth) / np.linalg.norm(truth)
    print(f"{type(model).__name__:20} {error:.3f}")
print("rank", search.rank_)

# %%
# One spectrum of the test set.

fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.plot(waves, ridge.predict(X_test[:1])[0], color="#D55E00", lw=1, label="RidgeCV")
ax.plot(waves, search.predict(X_test[:1])[0], color="#0072B2", label="SpectralRegressorCV")
ax.plot(waves, truth[0], "k--", lw=1, label="truth")
ax.set(xlabel="wavelength, nm", ylabel="absorbance", title="A predicted spectrum")
ax.legend()
