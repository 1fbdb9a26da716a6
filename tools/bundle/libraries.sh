# For check.sh and bench.sh: names the GPU's libraries among Python's packages to programs, wherever this python3 has them, unless
# the user has named some.
if [ -z "${MT_CUDA_LIBRARIES:-}" ] && command -v python3 >/dev/null 2>&1; then
  MT_CUDA_LIBRARIES=$(python3 -c '
import importlib.metadata, os
def folders():
    for package, folder in ("nvidia-cudnn-cu13", "nvidia/cudnn/lib"), ("nvidia-cublas", "nvidia/cu13/lib"), ("nvidia-cuda-nvrtc", "nvidia/cu13/lib"):
        try:
            yield str(importlib.metadata.distribution(package).locate_file(folder))
        except importlib.metadata.PackageNotFoundError:
            pass
print(":".join(folder for folder in dict.fromkeys(folders()) if os.path.isdir(folder)))' 2>/dev/null)
  [ -z "$MT_CUDA_LIBRARIES" ] || export MT_CUDA_LIBRARIES
fi
