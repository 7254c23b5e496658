"""From the columns users have (numbers, categories, texts, images) to what a student takes, and back from a file.

featuriser = Featuriser.fit(columns, FeatureOptions(text="review"), where="pool.parquet")
x = featuriser(columns, where="pool.parquet")      # an array, or Rows where that would be needlessly large
featuriser.save(folder)                            # features.json, features.safetensors
Featuriser.load(folder)(others, where="new.csv")   # the same numbers, bit for bit
"""
