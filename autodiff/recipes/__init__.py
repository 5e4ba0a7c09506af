"""Complete training jobs by name, for ``shadertape train``."""

from __future__ import annotations

from .digits_cnn import DIGITS_CNN
from .digits_mlp import DIGITS_MLP
from .mnist_cnn import MNIST_CNN
from .recipe import MissingExtraError as MissingExtraError
from .recipe import Recipe as Recipe

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (DIGITS_MLP, DIGITS_CNN, MNIST_CNN)}
