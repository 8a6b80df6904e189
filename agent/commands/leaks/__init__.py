"""How `gpudiag leak-report` reads its files and shows what they say."""
