"""Complete training jobs by name, for ``shadertape train``."""

from __future__ import annotations

from .digits_mlp import DIGITS_MLP
from .recipe import MissingExtraError as MissingExtraError
from .recipe import Recipe as Recipe

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (DIGITS_MLP,)}
